"""Messages of a store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Literal

from ekiden.api import messages as api
from ekiden.api.local.place import Here
from ekiden.api.pages import Page, Pages
from ekiden.app.messaging import outsider, post_message
from ekiden.app.run_reading import until_free
from ekiden.bus.reading import MessageQuery, matching_rows, record_of, requeue
from ekiden.core.documents import from_json
from ekiden.core.errors import UserError
from ekiden.core.errors.messages import MessageNotFound
from ekiden.core.messages import PRIORITIES, AgentMessage, Priority, agent_queue
from ekiden.core.runs import run_id_of
from ekiden.storage.base import MessageFilter, StoredMessage
from ekiden.storage.messages import MessageState

_MAILBOXES: Final = agent_queue("")
_SESSION: Final = "session:"


class LocalMessages(api.Messages):
    """See `Messages`; `send` is a `UserError` where there is no team."""

    def __init__(self, here: Here) -> None:
        self._here = here
        self._store = here.store

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
        if self._here.team is None:
            raise UserError("there is no team here that could get the message: name one")
        message = AgentMessage(
            type=type,
            from_agent=outsider(self._here.caller),
            to_agent=to,
            subject=subject,
            payload=payload,
            priority=PRIORITIES[priority],
            correlation_id=correlation_id,
        )
        session_id = await post_message(
            self._store, self._here.team, message, self._here.settings.bus
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
        """Until nobody works on the session any more, or the time is over."""
        if self._here.runs is not None:
            await self._here.runs.wait(run_id_of(session_id, 1), timeout_s=timeout_s)
            return
        await until_free(self._store, session_id, timeout_s=timeout_s)


def _details(row: StoredMessage) -> api.MessageDetails:
    """A message with what became of it, who waits for its answer and which session gives it."""
    owner = row.owner or ""
    told = {
        **record_of(row).to_json(),
        "waiter": row.waiter,
        "asked_in": row.session_id,
        "answered_in": owner.removeprefix(_SESSION) if owner.startswith(_SESSION) else None,
    }
    details: api.MessageDetails = from_json(api.MessageDetails, told)
    return details
