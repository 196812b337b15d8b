"""Stores that a hub reads, and short ways to write to them and to read from it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from ekiden.core.events import Event, EventType
from ekiden.hub import EventHub, EventStream, HubEvent
from ekiden.storage.base import Batch, Commit, NewSession, SessionPatch, Store
from ekiden.storage.memory import MemoryStore
from ekiden.storage.sqlite import SqliteStore


@pytest.fixture(params=["memory", "sqlite"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    """An open, empty store."""
    if request.param == "memory":
        async with MemoryStore() as kept:
            yield kept
    else:
        async with SqliteStore(tmp_path / "db") as stored:
            yield stored


@pytest.fixture
async def hub(store: Store) -> AsyncIterator[EventHub]:
    """A hub over the store."""
    async with EventHub(store, retry_s=0.001) as made:
        yield made


async def happen(store: Store, *names: str, type: EventType = "message", **fields: Any) -> None:
    """Let events of no session happen, each in a transaction of its own."""
    for name in names:
        said = Event(session_id="", seq=0, type=type, at_us=1, details={"name": name}, **fields)
        await store.write(Batch(events=[said]))


async def happen_in(store: Store, session_id: str, *events: dict[str, Any]) -> None:
    """Let events happen in a new session, in one transaction."""
    claim, _ = await store.claim(
        session_id, owner="w", lease_s=60, create=NewSession(id=session_id, agent="triage")
    )
    numbered = [
        Event(**{"session_id": session_id, "seq": seq, "type": "message", "at_us": 1, **fields})
        for seq, fields in enumerate(events, start=1)
    ]
    await store.commit(claim, Commit(patch=SessionPatch(), events=numbered, release=True))


async def take(stream: EventStream, count: int) -> list[HubEvent]:
    """The next events."""
    async with asyncio.timeout(60):
        return [await anext(stream) for _ in range(count)]


async def rest(stream: EventStream) -> list[HubEvent]:
    """All events of a stream that ends."""
    async with asyncio.timeout(60):
        return [found async for found in stream]


async def until(true: Callable[[], bool]) -> None:
    """Let others run until something is so."""
    async with asyncio.timeout(60):
        while not true():  # noqa: ASYNC110
            await asyncio.sleep(0.001)


def names(found: list[HubEvent]) -> list[str]:
    """What happened, by name."""
    return [str((each.event.details or {}).get("name")) for each in found]


def ids(found: list[HubEvent]) -> list[str]:
    """Where it stands."""
    return [each.id for each in found]


def numbered(first: int, last: int) -> list[str]:
    """Names for events: e1, e2, e3 …"""
    return [f"e{number}" for number in range(first, last + 1)]
