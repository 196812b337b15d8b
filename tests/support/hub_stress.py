"""Many writers in several processes, and subscribers that come and go: who saw what."""

from __future__ import annotations

import asyncio
import sys
from contextlib import AsyncExitStack
from pathlib import Path
from random import Random

from ekiden.hub import EventHub, HubEvent
from ekiden.project import open_store
from ekiden.storage.base import Store

ROOT = Path(__file__).resolve().parents[2]
WRITERS = 3


async def _start_writer(url: str, name: str, seed: int, count: int) -> asyncio.subprocess.Process:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.support.hub_child", url, name, str(seed), str(count)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        cwd=ROOT,
    )
    assert process.stdout is not None
    assert await process.stdout.readline() == b"ready\n"
    return process


class Subscriber:
    """Reads all events, but drops its stream at random and goes on with the last id.

    Sometimes it is a new hub that it comes back to, as after a restart, and sometimes it is slow.
    """

    def __init__(self, store: Store, hub: EventHub, dice: Random) -> None:
        self._store = store
        self._hub = hub
        self._dice = dice
        self.seen: list[HubEvent] = []
        self.resumed = 0

    async def read(self, total: int) -> None:
        """Until `total` events were seen."""
        while len(self.seen) < total:
            after = self.seen[-1].id if self.seen else ""
            if self._dice.random() < 0.2:
                async with EventHub(self._store) as another:
                    await self._some(another, after, total)
            else:
                await self._some(self._hub, after, total)
            self.resumed += 1

    async def _some(self, hub: EventHub, after: str, total: int) -> None:
        dice = self._dice
        wanted = min(total - len(self.seen), dice.choice([1, 3, 30, 300]))
        is_slow = dice.random() < 0.2
        stream = hub.subscribe(after=after)
        try:
            async with asyncio.timeout(dice.choice([0.01, 0.1, 10])):
                for _ in range(wanted):
                    self.seen.append(await anext(stream))
                    if is_slow:
                        await asyncio.sleep(dice.random() * 0.001)
        except TimeoutError:
            pass  # It was cancelled while it waited, or between two events.
        finally:
            if dice.random() < 0.5:
                stream.close()


async def stress(url: str, *, seed: int, per_writer: int, subscribers: int) -> None:
    """Every subscriber sees every event once, in the order of the feed."""
    dice = Random(seed)
    names = {f"w{number}-{each}" for number in range(WRITERS) for each in range(per_writer)}
    async with AsyncExitStack() as stack:
        store = await stack.enter_async_context(open_store(url))
        other = await stack.enter_async_context(open_store(url))
        starts = (_start_writer(url, f"w{each}", seed, per_writer) for each in range(WRITERS))
        writers = await asyncio.gather(*starts)
        hub = await stack.enter_async_context(EventHub(store))
        readers = [
            Subscriber(dice.choice([store, other]), hub, Random(f"{seed}.{number}"))
            for number in range(subscribers)
        ]
        async with asyncio.timeout(60), asyncio.TaskGroup() as tasks:
            for writer in writers:
                tasks.create_task(writer.communicate(b"go\n"))
            for reader in readers:
                tasks.create_task(reader.read(len(names)))
        assert [writer.returncode for writer in writers] == [0] * WRITERS
        fed = await _whole_feed(store)
    assert len(fed) == len(names)
    assert {str((each.event.details or {})["name"]) for each in fed} == names
    order = [(each.id, each.event.event_id) for each in fed]
    for reader in readers:
        assert [(each.id, each.event.event_id) for each in reader.seen] == order
    assert sum(reader.resumed for reader in readers) > subscribers


async def _whole_feed(store: Store) -> list[HubEvent]:
    async with EventHub(store) as hub:
        return [found async for found in hub.subscribe(after="", follow=False)]
