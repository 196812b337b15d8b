"""Messages are delivered again, doubled and disordered; every query is answered once, and every
effect is there once."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import cast

import pytest

from ekiden.bus import Bus
from ekiden.storage.base import Store
from tests.faults.bus_child import CLERK, Job, ask, news, settings, start
from tests.faults.databases import Database
from tests.faults.ledger import Ledger
from tests.faults.mischief import MischievousStore
from tests.faults.waiting import DEADLINE_S, until

SEEDS = [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 12))]
EACH = 40


@pytest.mark.parametrize("seed", SEEDS)
async def test_a_faulty_queue_yields_one_answer_and_one_effect(
    empty_database: Database, ledger: Ledger, seed: int
) -> None:
    jobs = [
        Job(
            task="serve",
            store=empty_database.url,
            folder=str(ledger.folder),
            seed=10 * seed + number,
            visibility_s=3.0,
            waits=True,
            shares=True,
        )
        for number in range(2)
    ]
    queries = [f"q{number}" for number in range(EACH)]
    notes = [f"n{number}" for number in range(EACH)]
    servers = [start(job) for job in jobs]
    try:
        async with empty_database.open() as opened:
            await until(lambda: len(ledger.lines("here")) == len(servers), "both serve")
            store = MischievousStore(opened, 10 * seed + 9)
            async with Bus(cast("Store", store), settings=settings(jobs[0])) as bus:
                sending = asyncio.gather(*(bus.send(news(each)) for each in notes))
                asking = asyncio.gather(*(ask(bus, each) for each in queries))
                await until(lambda: len(_receivers(ledger)) == len(servers), "both have some")
                (ledger.folder / "answer").touch()
                answers = await asking
                await sending
                again = await asyncio.gather(*(ask(bus, each) for each in queries))
                while (await bus.depths()).get(CLERK):
                    await opened.wait_for_change(0.1)
                states = Counter(row.state for row in await opened.find_messages(limit=1000))
        (ledger.folder / "stop").touch()
        assert [await asyncio.to_thread(each.wait, DEADLINE_S) for each in servers] == [0, 0]
    finally:
        for each in servers:
            each.kill()
            each.wait(DEADLINE_S)
    assert [each.payload["reply"] for each in answers] == [f"{each} is booked" for each in queries]
    assert [each.payload for each in again] == [each.payload for each in answers]
    assert states == {"answered": 2 * EACH}
    assert ledger.effects() == sorted([*queries, *notes])
    seen = ledger.lines("got")
    first = Counter(line["id"] for line in seen if not line["redelivered"])
    assert set(first.values()) == {1}
    # Whether a second process gets it before the first one has answered depends on timing.
    again_for_others = [each["done"].get("delivered again", 0) for each in ledger.lines("mischief")]
    assert sum(again_for_others) > 1, "nothing was ever there for others, too"
    assert store.done["doubled"] > 1


def _receivers(ledger: Ledger) -> set[int]:
    return {line["pid"] for line in ledger.lines("got")}
