"""Telling and asking agents from outside, as people and programs do it."""

from __future__ import annotations

from typing import Any, Final

from ekiden.bus.checks import check_message
from ekiden.core.errors import QueueFull
from ekiden.core.errors.messages import MailboxFull
from ekiden.core.messages import (
    DEFAULT_LIMITS,
    AgentMessage,
    BusLimits,
    Letter,
    agent_queue,
    wait_node,
)
from ekiden.core.team import Team
from ekiden.runtime.questions.sessions import ANSWERS, bus_session_id, session_for
from ekiden.storage.base import Batch, QueuePut, Store

OUTSIDER: Final = "caller:"
"""How the names of senders begin that are no agents."""
_MAX_NAME: Final = 200
_FOR_EVER_S: Final = 1e9
_MAX_TITLE: Final = 120


def outsider(name: str) -> str:
    """How somebody is called on the bus who is no agent, and so cannot be taken for one."""
    return f"{OUTSIDER}{name}".replace("#", "＃")[:_MAX_NAME]


async def post_message(
    store: Store, team: Team, message: AgentMessage, limits: BusLimits = DEFAULT_LIMITS
) -> str:
    """Store a message for an agent of the team, with the session in which it sees to it.

    Gives the id of the session, which a worker goes on with. What the agent says at its
    end is the answer to the message. `UnknownAgent`, `UserError` for what cannot be carried, and
    `MailboxFull`.
    """
    agent = team[message.to_agent or ""].name
    payload = check_message(message, limits)
    message.payload = payload
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
        taken_by=f"session:{session_id}",
        lease_s=_FOR_EVER_S,
    )
    try:
        await store.write(Batch(openings=[opening], messages=[put]))
    except QueueFull as exc:
        raise MailboxFull(agent, limits.mailbox_bound) from exc
    return session_id
