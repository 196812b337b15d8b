"""The fixtures, hooks and helpers of all parts of the store contract."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from ekiden.core.events import Event, EventType
from ekiden.storage.base import Claim, Commit, Document, NewSession, SessionPatch, SessionRow, Store

LEASE_S = 30.0
"""The lease of all claims in the tests, in seconds. `advance_clock` lets the lease expire without
sleeping."""

AWKWARD_TEXTS = (
    "",
    "plain",
    "naïve — “quoted” \\ / \t\r\n",
    "日本語 עברית ‮bidi‬",
    "👩‍👩‍👧‍👦 🏃‍♀️",
    "a\x00b",
    "\x01\x1f\x7f\x80",
    "lone \ud83d high",
    "lone \udc00 low",
    "\u2028\ufeff\uffff\U0010ffff",
    "%_'\";--",
)
"""Texts that Python, JSON or a model can produce, and that a store may store incorrectly."""


class StoreContractBase:
    """The hooks that the test class of a back end overrides."""

    looks_into_events = True
    """Whether the store checks events, and refuses values in them that are not JSON."""

    @pytest.fixture
    async def store(self) -> Store:
        """An open, empty store. A subclass overrides this fixture, and closes the store after the
        test."""
        raise NotImplementedError("override the `store` fixture")

    @pytest.fixture
    async def other(self, store: Store) -> Store:
        """A second open handle to the same database, or the same object if that is impossible."""
        return store

    async def advance_clock(self, store: Store, seconds: float) -> None:
        """Advance the store's clock, which measures leases and delays, on all handles."""
        raise NotImplementedError("override `advance_clock`")

    async def let_wait(self, store: Store, seconds: float) -> None:
        """Move the time at which all ready sessions became ready back by this many seconds."""
        await self.advance_clock(store, seconds)

    async def expire_leases(self, store: Store) -> None:
        """Let all leases of the tests expire."""
        await self.advance_clock(store, LEASE_S + 1)


def new_session(session_id: str, **fields: Any) -> NewSession:
    """A session of the agent `triage`."""
    return NewSession(**{"id": session_id, "agent": "triage", **fields})


def event(seq: int, session_id: str = "s", type: EventType = "message", **fields: Any) -> Event:
    """An event of session `s`."""
    return Event(session_id=session_id, seq=seq, type=type, at_us=1_700_000_000_000_000, **fields)


def step(*events: Event, patch: SessionPatch | None = None, **fields: Any) -> Commit:
    """A commit of these events."""
    return Commit(patch=patch or SessionPatch(), events=events, **fields)


async def claimed(store: Store, session_id: str = "s", *, owner: str = "w1") -> Claim:
    """Claim a session. A missing session is created."""
    claim, _ = await store.claim(
        session_id, owner=owner, lease_s=LEASE_S, create=new_session(session_id)
    )
    return claim


def fields_of(events: Iterable[Event]) -> list[tuple[Any, ...]]:
    """The fields of the events, for comparison."""
    return [
        (
            each.session_id,
            each.seq,
            each.type,
            each.at_us,
            each.agent,
            each.step,
            each.duration_us,
            each.details,
            each.items,
            each.error,
        )
        for each in events
    ]


Snapshot = tuple[SessionRow, list[tuple[Any, ...]], dict[str, Any], list[Document], int]


async def snapshot(store: Store, session_id: str = "s") -> Snapshot:
    """Everything that a commit to this session can change. The collection is `c`, and the queue is
    `q`."""
    return (
        await store.get(session_id),
        fields_of(await store.events(session_id)),
        dict(await store.steps(session_id)),
        list(await store.list_documents("c")),
        await store.queue_depth("q"),
    )
