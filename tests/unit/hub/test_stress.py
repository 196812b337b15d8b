"""Writers and subscribers at random: every event exactly once, in one order for all."""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random

import pytest

from ekiden.hub import EventHub
from ekiden.storage.memory import MemoryStore
from tests.support.hub_stress import Subscriber, stress
from tests.unit.hub.conftest import happen, happen_in


@pytest.mark.parametrize("seed", range(5))
async def test_subscribers_in_one_process_see_all_events_in_order(seed: int) -> None:
    dice = Random(seed)
    async with MemoryStore() as store, EventHub(store) as hub:
        readers = [Subscriber(store, hub, Random(f"{seed}.{number}")) for number in range(10)]

        async def write(writer: int) -> None:
            for number in range(100):
                if dice.random() < 0.5:
                    await happen(store, f"{writer}.{number}")
                else:
                    await happen_in(store, f"{writer}.{number}", {})
                await asyncio.sleep(0 if dice.random() < 0.7 else dice.random() * 0.002)

        async with asyncio.timeout(60), asyncio.TaskGroup() as tasks:
            for writer in range(5):
                tasks.create_task(write(writer))
            for reader in readers:
                tasks.create_task(reader.read(500))
        fed = [found async for found in hub.subscribe(after="", follow=False)]
    assert len(fed) == 500
    assert all(reader.seen == fed for reader in readers)


@pytest.mark.slow
async def test_subscribers_of_several_processes_see_all_events_in_order(tmp_path: Path) -> None:
    await stress(str(tmp_path / "db"), seed=1, per_writer=150, subscribers=5)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 8))
async def test_subscribers_of_several_processes_see_all_events_for_longer(
    tmp_path: Path, seed: int
) -> None:
    await stress(str(tmp_path / "db"), seed=seed, per_writer=1000, subscribers=12)
