"""A store that cannot be reached for a while costs time, never events."""

from __future__ import annotations

import asyncio

import pytest

from ekiden.core.errors import StoreUnavailable
from ekiden.hub import EventHub
from ekiden.storage.base import DocumentWrite, EventPage, Store
from tests.unit.hub.conftest import happen, names, numbered, take, until


class Flaky:
    """A store that fails when a test says so."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.problem: Exception | None = None
        self.hints = True
        self.tried = asyncio.Event()
        self.calls: list[float] = []

    def _check(self) -> None:
        self.calls.append(asyncio.get_running_loop().time())
        if self.problem is not None:
            self.tried.set()
            raise self.problem

    async def feed(self, *, after: str | None = None, limit: int = 100) -> EventPage:
        self._check()
        return await self._store.feed(after=after, limit=limit)

    async def feed_end(self) -> str:
        self._check()
        return await self._store.feed_end()

    async def wait_for_change(self, timeout_s: float) -> None:
        if isinstance(self.problem, StoreUnavailable):
            raise self.problem
        if not self.hints:
            raise StoreUnavailable("no hints")
        await self._store.wait_for_change(timeout_s)

    async def fail(self, problem: Exception) -> None:
        """Fail until further notice; returns when a read has failed."""
        self.problem = problem
        self.tried.clear()
        async with asyncio.timeout(60):
            await self.tried.wait()


@pytest.fixture
def flaky(store: Store) -> Flaky:
    return Flaky(store)


async def test_events_of_a_store_outage_are_delivered_after_it(store: Store, flaky: Flaky) -> None:
    told: list[str] = []
    hub = EventHub(
        flaky, on_outage=lambda exc: told.append("over" if exc is None else str(exc)), retry_s=0.001
    )
    async with hub, hub.subscribe() as first, hub.subscribe() as second:
        waiting = [asyncio.create_task(take(each, 3)) for each in (first, second)]
        await happen(store, "e1")
        await flaky.fail(StoreUnavailable("away"))
        await happen(store, "e2", "e3")
        flaky.problem = None
        assert [names(found) for found in await asyncio.gather(*waiting)] == [numbered(1, 3)] * 2
    assert told == ["away", "over"]


async def test_a_subscriber_catching_up_during_an_outage_continues_after_it(
    store: Store, flaky: Flaky
) -> None:
    await happen(store, *numbered(1, 3))
    async with EventHub(flaky, retry_s=0.001) as hub:
        [first] = await take(hub.subscribe(after=""), 1)
        failing = asyncio.create_task(flaky.fail(StoreUnavailable("away")))
        await asyncio.sleep(0)
        waiting = asyncio.create_task(take(hub.subscribe(after=first.id), 2))
        beginning = asyncio.create_task(take(hub.subscribe(), 1))
        await failing
        flaky.problem = None
        assert names(await waiting) == ["e2", "e3"]
        while not beginning.done():
            await happen(store, "later")
            await asyncio.sleep(0.001)
        assert names(await beginning) == ["later"]


async def test_the_delay_between_retries_grows(store: Store, flaky: Flaky) -> None:
    async with EventHub(flaky, retry_s=0.002) as hub:
        flaky.problem = StoreUnavailable("away")
        stream = hub.subscribe(after="")
        waiting = asyncio.create_task(take(stream, 1))
        await until(lambda: len(flaky.calls) >= 6)
        pauses = [
            after - before for before, after in zip(flaky.calls, flaky.calls[1:], strict=False)
        ]
        assert all(pause >= 0.002 * 2**number for number, pause in enumerate(pauses))
        flaky.problem = None
        await happen(store, "e1")
        assert names(await waiting) == ["e1"]


async def test_without_change_notifications_events_are_found_by_polling(
    store: Store, flaky: Flaky
) -> None:
    flaky.hints = False
    async with EventHub(flaky, retry_s=0.001) as hub, hub.subscribe() as stream:
        waiting = asyncio.create_task(take(stream, 1))
        calls = len(flaky.calls)
        await until(lambda: len(flaky.calls) >= calls + 2)
        await happen(store, "e1")
        assert names(await waiting) == ["e1"]


async def test_a_stream_can_be_closed_during_an_outage(flaky: Flaky) -> None:
    hub = EventHub(flaky, retry_s=60)
    flaky.problem = StoreUnavailable("away")
    streams = [hub.subscribe(), hub.subscribe(after=""), hub.subscribe(after="1")]
    waiting = [asyncio.create_task(anext(stream, None)) for stream in streams]
    await flaky.tried.wait()
    await hub.close()
    async with asyncio.timeout(60):
        assert await asyncio.gather(*waiting) == [None, None, None]


async def test_an_unexpected_store_error_reaches_all_and_the_next_read_continues(
    store: Store, flaky: Flaky
) -> None:
    async with EventHub(flaky, retry_s=0.001) as hub:
        streams = [hub.subscribe(), hub.subscribe()]
        for stream in streams:
            await stream.__aenter__()
        waiting = [asyncio.create_task(anext(stream)) for stream in streams]
        await until(lambda: len(hub._reader._waiting) == 2)
        flaky.problem = ZeroDivisionError("oops")
        await store.write_documents([DocumentWrite(collection="c", key="k", body=1)])
        for task in waiting:
            with pytest.raises(ZeroDivisionError):
                await task
        flaky.problem = None
        await happen(store, "e1")
        for stream in streams:
            assert names(await take(stream, 1)) == ["e1"]


async def test_a_hub_continues_after_its_store_was_reopened(store: Store) -> None:
    async with EventHub(store, retry_s=0.001) as hub, hub.subscribe() as stream:
        await happen(store, "e1")
        assert names(await take(stream, 1)) == ["e1"]
        waiting = asyncio.create_task(take(stream, 1))
        await asyncio.sleep(0)
        await store.close()
        await asyncio.sleep(0)
        await store.open()
        await happen(store, "e2")
        assert names(await waiting) == ["e2"]
