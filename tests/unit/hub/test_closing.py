"""Streams and hubs end without leaving anything behind."""

from __future__ import annotations

import asyncio
import gc

import pytest

from ekiden.core.errors import UserError
from ekiden.hub import EventHub
from ekiden.storage.base import Store
from tests.unit.hub.conftest import happen, names, rest, take, until


async def test_closing_a_stream_ends_only_its_own_wait(store: Store, hub: EventHub) -> None:
    ended, other = hub.subscribe(after=""), hub.subscribe(after="")
    waiting = asyncio.create_task(rest(ended))
    going_on = asyncio.create_task(take(other, 1))
    await until(lambda: _waiting(hub) == 2)
    await ended.aclose()
    assert await waiting == []
    await happen(store, "e1")
    assert names(await going_on) == ["e1"]
    assert await anext(ended, None) is None


async def test_closing_the_hub_ends_every_stream(store: Store) -> None:
    hub = EventHub(store)
    await happen(store, "e1")
    streams = [hub.subscribe(after="") for _ in range(3)]
    waiting = [asyncio.create_task(rest(stream)) for stream in streams]
    unread = hub.subscribe(after="")
    await until(lambda: all(stream.position != "" for stream in streams))
    await hub.close()
    await hub.close()
    assert [names(found) for found in await asyncio.gather(*waiting)] == [["e1"]] * 3
    assert await rest(unread) == []
    with pytest.raises(UserError, match="hub is closed"):
        hub.subscribe()
    await happen(store, "e2")
    async with EventHub(store) as again:
        assert names(await take(again.subscribe(after=streams[0].position), 1)) == ["e2"]


async def test_a_closed_hub_leaves_no_task_behind(store: Store) -> None:
    before = asyncio.all_tasks()
    async with EventHub(store) as hub:
        waiting = [asyncio.create_task(anext(hub.subscribe(), None)) for _ in range(3)]
        await until(lambda: _waiting(hub) == 3)
        waiting[0].cancel()
    await asyncio.wait(waiting)
    left = {task.get_name() for task in asyncio.all_tasks() - before}
    assert left <= {"ekiden-sqlite-watch"}, "which is the store's own"


async def test_a_stream_can_be_closed_before_its_first_read(hub: EventHub) -> None:
    stream = hub.subscribe()
    stream.close()
    assert await rest(stream) == []
    async with stream:
        assert await rest(stream) == []


async def test_a_dropped_stream_is_released(hub: EventHub) -> None:
    for _ in range(50):
        await anext(hub.subscribe(after="", follow=False), None)
    gc.collect()
    assert len(hub._streams) == 0


def _waiting(hub: EventHub) -> int:
    """How many wait for news."""
    return len(hub._reader._waiting)
