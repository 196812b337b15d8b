"""A caller that is cancelled while its message is written."""

from __future__ import annotations

import asyncio
from pathlib import Path

from ekiden.bus.parts import GroupWriter
from ekiden.storage.records import MessageSettle, QueuePut
from ekiden.storage.sqlite import SqliteStore


async def test_a_message_does_not_overtake_an_end_whose_caller_was_cancelled(
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
