"""Callers of a write that is cancelled or broken off."""

from __future__ import annotations

import asyncio
from pathlib import Path

from ekiden.bus.parts import GroupWriter
from ekiden.core.errors import StoreUnavailable
from ekiden.storage.memory import MemoryStore
from ekiden.storage.records import Batch, MessageSettle, QueuePut, Written
from ekiden.storage.sqlite import SqliteStore


async def test_a_put_does_not_overtake_a_settlement_whose_caller_was_cancelled(
    tmp_path: Path,
) -> None:
    async with SqliteStore(tmp_path / "bus.db") as store:
        writer = GroupWriter(store)
        for number in range(20):
            key = f"k{number}"
            await writer.put([QueuePut(queue="q", body=number, key=key, bound=1)])
            ending = asyncio.create_task(
                writer.settle(MessageSettle(key=key, state="answered", answer=number))
            )
            await asyncio.sleep(0)
            ending.cancel()
            await asyncio.wait((ending,))
        await writer.close()


async def test_closing_waits_for_the_write_of_a_cancelled_caller(tmp_path: Path) -> None:
    async with SqliteStore(tmp_path / "bus.db") as store:
        for number in range(20):
            writer = GroupWriter(store)
            putting = asyncio.create_task(writer.put([QueuePut(queue="q", body=number)]))
            await asyncio.sleep(0)
            putting.cancel()
            await asyncio.wait((putting,))
            await writer.close()
            assert await store.queue_depth("q") == number + 1


class BrokenStore(MemoryStore):
    """A store with a defect: a write fails with an error that no store should raise."""

    def __init__(self) -> None:
        super().__init__()
        self.began, self.go = asyncio.Event(), asyncio.Event()

    async def write(self, batch: Batch) -> Written:
        self.began.set()
        await self.go.wait()
        raise RuntimeError("a defect")


async def test_callers_that_queued_during_a_write_with_a_defect_also_get_an_error() -> None:
    store = BrokenStore()
    writer = GroupWriter(store)
    first = asyncio.create_task(writer.put([QueuePut(queue="q", body=1)]))
    await store.began.wait()
    second = asyncio.create_task(writer.put([QueuePut(queue="q", body=2)]))
    await asyncio.sleep(0)
    store.go.set()
    async with asyncio.timeout(5):
        found = await asyncio.gather(first, second, return_exceptions=True)
    assert [type(each) for each in found] == [StoreUnavailable, StoreUnavailable]
    await writer.close()
