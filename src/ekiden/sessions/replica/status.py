"""How a mirror stands, read from the store; the mirror itself is not asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ekiden.core.values import Value
from ekiden.sessions.replica.progress import MIRRORS, ReplicaProgress, replica_key
from ekiden.storage.base import Store

_SHOWN = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class SetAside(Value):
    """An event that a mirror does not get."""

    event_id: str
    problem: str
    at_us: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaStatus(Value):
    """How a replica of the sessions stands: a copy of them elsewhere."""

    name: str
    fed: bool
    """Whether a process feeds it now."""
    sent: int
    """Events that it ever got."""
    waiting: int
    """Sessions that have something to be sent."""
    up_to_date: bool
    """Whether nothing is stored that it has not had."""
    problem: str | None
    """Why nothing was taken, when it was last asked."""
    set_aside: int
    aside: Sequence[SetAside]
    """Some of those that were set aside."""


async def replica_status(store: Store, name: str) -> ReplicaStatus:
    """How the mirror of that name stands; one that was never fed has everything before it."""
    document = await store.get_document(MIRRORS, replica_key(name))
    body = {} if document is None else document.body
    book = ReplicaProgress(store, name, owner="", lease_s=0)
    waiting, after = 0, ""
    while page := await book.due(after):
        waiting += len(page)
        after = page[-1].session_id
    unread = await store.feed(after=body.get("cursor"), limit=1)
    noted = await store.list_documents(book.asides, limit=_SHOWN)
    return ReplicaStatus(
        name=name,
        fed=body.get("owner") is not None and body["until_us"] > await store.now_us(),
        sent=body.get("sent", 0),
        waiting=waiting,
        up_to_date=not waiting and not unread.events,
        problem=body.get("problem"),
        set_aside=body.get("set_aside", 0),
        aside=[
            SetAside(event_id=each.key, problem=each.body["problem"], at_us=each.body["at_us"])
            for each in noted
        ],
    )
