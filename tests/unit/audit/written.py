"""Sessions with chained events, as the runtime writes them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ekiden.audit import chained
from ekiden.core.events import Event, EventType
from ekiden.storage.base import SessionPatch, Store
from ekiden.testing.contracts.base import claimed, step

START_US = 1_700_000_000_000_000
BEGINNING = ["initiated", "validating", "transferring"]


def event(session_id: str, seq: int, type: EventType = "message", **fields: Any) -> Event:
    """An event, a second after the one before it."""
    at_us = fields.pop("at_us", START_US + seq * 1_000_000)
    return Event(session_id=session_id, seq=seq, type=type, at_us=at_us, **fields)


def handoff(
    session_id: str, seq: int, *moves: str, at_us: int | None = None, **details: Any
) -> Event:
    """A handoff from `triage` to `orders` that made these moves."""
    told = {
        "id": f"{session_id}.h1",
        "from": "triage",
        "to": "orders",
        "status": moves[-1],
        "moves": list(moves),
        **details,
    }
    time = {} if at_us is None else {"at_us": at_us}
    return event(session_id, seq, "handoff", agent="triage", details=told, **time)


def story(session_id: str = "s") -> list[Event]:
    """A message, a route, a handoff that is begun and completed, a tool that is allowed."""
    return [
        event(session_id, 1, items=({"role": "user", "content": "我的包裹在哪里？"},)),
        event(
            session_id,
            2,
            "route",
            agent="router",
            step="1.1.r",
            duration_us=1234,
            details={"agent": "triage", "method": "rule", "reason": "fits", "confidence": 0.75},
        ),
        handoff(session_id, 3, *BEGINNING, reason="包裹 📦"),
        event(session_id, 4, "llm_call", agent="orders"),
        handoff(session_id, 5, "completed"),
        event(
            session_id,
            6,
            "tool_confirmation",
            agent="orders",
            details={"tool": "refund", "approved": True, "by": "ms.sato", "reason": ""},
        ),
        event(session_id, 7, "agent_complete", agent="orders"),
    ]


async def write(store: Store, events: Sequence[Event], *, unhashed: Sequence[Event] = ()) -> None:
    """Store the events of one session, chained; `unhashed` come before them, as they are."""
    linked, chain = chained(events)
    cursor: dict[str, Any] = {}
    chain.to_json(cursor)
    every = [*unhashed, *linked]
    claim = await claimed(store, every[0].session_id)
    patch = SessionPatch(cursor=cursor)
    await store.commit(claim, step(*every, patch=patch, release=True))
