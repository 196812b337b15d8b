"""Waiting for a time to come, as a parked session: a question to nobody, which is not answered."""

from __future__ import annotations

from ekiden.core.ids import new_id
from ekiden.core.messages import AgentMessage, Letter
from ekiden.runtime.asking import QUERY_TIMER
from ekiden.runtime.cursor import OpenQuestion
from ekiden.runtime.state import RunState
from ekiden.storage.base import QueuePut, QueueStore
from ekiden.storage.timers import Timer, timer_write

PAUSES = "pauses"
"""The queue of what nobody answers."""


def pause(run: RunState, key: str, seconds: float, now_us: int) -> None:
    """Wait with the next commit: the step `key` is there when the time is over.

    Nobody takes the message, so that all that comes of it is its time-out.
    """
    message = AgentMessage(
        id=new_id("msg"),
        type="query",
        from_agent=run.agent.name,
        to_agent=PAUSES,
        subject="a pause",
        timeout_seconds=max(seconds, 0.001),
        created_at=run.config.clock.now_us() / 1e6,
    )
    due_us = now_us + int(seconds * 1e6)
    run.beside.messages.append(
        QueuePut(
            queue=PAUSES,
            key=message.id,
            body=Letter(message=message).to_json(),
            session_id=run.session_id,
        )
    )
    run.write(timer_write(Timer(due_us=due_us, kind=QUERY_TIMER, id=message.id)))
    run.cursor.asks[key] = OpenQuestion(
        "query", message.id, PAUSES, due_us=due_us, at_s=round(run.spent_s(), 6)
    )


async def pauses(store: QueueStore) -> bool:
    """Whether any session pauses: it goes on by itself before long."""
    return await store.queue_depth(PAUSES) > 0
