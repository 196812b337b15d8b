"""Messages of a store, and sending messages to agents from outside."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Literal

from ekiden.api import messages as api
from ekiden.api.local.context import LocalPart
from ekiden.api.methods.values import Page, Pages
from ekiden.bus.messages import MessageQuery, check_message, matching_rows, record_of, requeue
from ekiden.core.agent import Team
from ekiden.core.conversation.messages import (
    DEFAULT_LIMITS,
    AgentMessage,
    BusLimits,
    Letter,
    agent_queue,
    wait_node,
)
from ekiden.core.documents import from_json
from ekiden.core.errors import QueueFull, UserError
from ekiden.core.errors.messages import MailboxFull, MessageNotFound
from ekiden.core.runs import run_id_of
from ekiden.core.values import PRIORITIES, Priority
from ekiden.project.stored_runs import until_free
from ekiden.runtime.questions.sessions import ANSWERS, bus_session_id, session_for
from ekiden.storage.base import Batch, MessageFilter, QueuePut, Store, StoredMessage
from ekiden.storage.records import MessageState

_OUTSIDER: Final = "caller:"
"""The prefix of senders that are not agents."""
_MAX_NAME: Final = 200
_FOREVER_S: Final = 1e9
_MAX_TITLE: Final = 120
_MAILBOXES: Final = agent_queue("")
_SESSION: Final = "session:"


def outsider(name: str) -> str:
    """The bus name of a sender that is not an agent. No agent can have such a name."""
    return f"{_OUTSIDER}{name}".replace("#", "＃")[:_MAX_NAME]


async def post_message(
    store: Store, team: Team, message: AgentMessage, limits: BusLimits = DEFAULT_LIMITS
) -> str:
    """Store a message for an agent of the team, together with the session in which the agent
    handles the message.

    Returns the id of the session. A worker runs the session, and the agent's final output is the
    answer to the message. Raises `UnknownAgent`, `UserError` for invalid content, and
    `MailboxFull`.
    """
    agent = team[message.to_agent or ""].name
    message.payload = check_message(message, limits)
    queue = agent_queue(agent)
    session_id = bus_session_id(queue, message.id)
    meta: dict[str, Any] = {
        "title": message.subject[:_MAX_TITLE],
        "task_id": message.id,
        "correlation_id": message.correlation_id or message.id,
        "asked_by": message.from_agent,
        "ask_depth": 1,
        ANSWERS: message.id,
    }
    opening = session_for(message, session_id=session_id, meta=meta)
    put = QueuePut(
        queue=queue,
        key=message.id,
        body=Letter(message=message, awaits=wait_node(agent, message.id)).to_json(),
        priority=message.priority,
        bound=limits.mailbox_bound,
        taken_by=f"{_SESSION}{session_id}",
        lease_s=_FOREVER_S,
    )
    try:
        await store.write(Batch(openings=[opening], messages=[put]))
    except QueueFull as exc:
        raise MailboxFull(agent, limits.mailbox_bound) from exc
    return session_id


class LocalMessages(LocalPart, api.MessagesApi):
    """`MessagesApi` on a store in this process. Without a team, `send` raises `UserError`."""

    def list(
        self,
        *,
        agent: str | None = None,
        sender: str | None = None,
        task: str | None = None,
        correlation: str | None = None,
        state: MessageState | None = None,
        waiter: str | None = None,
        session: str | None = None,
    ) -> Pages[api.MessageDetails]:
        query = MessageQuery(
            sender=sender, recipient=agent, task=task, correlation_id=correlation, state=state
        )

        async def fetch(limit: int, cursor: str | None) -> Page[api.MessageDetails]:
            rows, next_cursor = await matching_rows(
                self._store, query, limit=limit, cursor=cursor, waiter=waiter, session_id=session
            )
            return Page(items=[_details(row) for row in rows], next_cursor=next_cursor)

        return Pages(fetch)

    async def send(
        self,
        to: str,
        *,
        type: Literal["query", "notify"] = "query",
        subject: str = "",
        payload: Any = None,
        priority: Priority = "normal",
        correlation_id: str | None = None,
        wait_s: float = 30.0,
    ) -> api.MessageDetails:
        if self._context.team is None:
            raise UserError("there is no team here that can get the message: name one")
        message = AgentMessage(
            type=type,
            from_agent=outsider(self._context.caller),
            to_agent=to,
            subject=subject,
            payload=payload,
            priority=PRIORITIES[priority],
            correlation_id=correlation_id,
        )
        session_id = await post_message(
            self._store, self._context.team, message, self._context.settings.bus
        )
        if type == "query":
            await self._wait(session_id, wait_s)
        return await self.get(message.id)

    async def requeue(self, ids: Sequence[str]) -> api.Requeued:
        return api.Requeued(requeued=await requeue(self._store, ids))

    async def get(self, message_id: str) -> api.MessageDetails:
        rows = await self._store.find_messages(MessageFilter(keys=(message_id,)), limit=1)
        for row in rows:
            if row.queue.startswith(_MAILBOXES):
                return _details(row)
        raise MessageNotFound(message_id)

    async def _wait(self, session_id: str, timeout_s: float) -> None:
        """Wait until no process works on the session, or until the timeout."""
        if self._context.runs is not None:
            await self._context.runs.wait(run_id_of(session_id, 1), timeout_s=timeout_s)
            return
        await until_free(self._store, session_id, timeout_s=timeout_s)


def _details(row: StoredMessage) -> api.MessageDetails:
    """A message with its delivery, its waiter and the session that answers it."""
    owner = row.owner or ""
    delivery = {
        **record_of(row).to_json(),
        "waiter": row.waiter,
        "asked_in": row.session_id,
        "answered_in": owner.removeprefix(_SESSION) if owner.startswith(_SESSION) else None,
    }
    details: api.MessageDetails = from_json(api.MessageDetails, delivery)
    return details
