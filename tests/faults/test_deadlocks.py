"""Agents in several processes wait for each other in circles, and none is left waiting."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise

import pytest

from ekiden.bus.deadlocks import deadlocks, find_present
from ekiden.bus.graph import VictimPolicy
from ekiden.storage.base import MessageFilter
from tests.faults.databases import Database
from tests.faults.ledger import Ledger
from tests.faults.waiters import Job, start
from tests.faults.waiting import DEADLINE_S, until

RING = {"a": "b", "b": "c", "c": "a"}


@contextmanager
def processes(*jobs: Job) -> Iterator[list[subprocess.Popen[bytes]]]:
    """One for each job; none of them outlives the test."""
    started = [start(job) for job in jobs]
    try:
        yield started
    finally:
        for process in started:
            process.kill()
            process.wait(DEADLINE_S)


async def let_ask(ledger: Ledger, name: str) -> None:
    """Let one agent ask, and return when it waits."""
    (ledger.folder / f"go-{name}").touch()
    await until(lambda: bool(ledger.lines("waits", agent=name)), f"{name} waits")


@pytest.mark.parametrize(
    ("policy", "victim"), [("longest", "a"), ("youngest", "c"), ("lowest_priority", "a")]
)
async def test_a_circle_across_three_processes_is_broken_where_it_is_closed(
    empty_database: Database, ledger: Ledger, policy: VictimPolicy, victim: str
) -> None:
    async with empty_database.open():
        pass  # The three are not to make the tables at the same time.
    jobs = [
        Job(
            task="ask_once",
            store=empty_database.url,
            folder=str(ledger.folder),
            agents=(name,),
            everybody=tuple(RING),
            asks=target,
            policy=policy,
        )
        for name, target in RING.items()
    ]
    with processes(*jobs) as three:
        await until(lambda: len(ledger.lines("here")) == 3, "all are there")
        for name in RING:
            await let_ask(ledger, name)
        assert [process.wait(DEADLINE_S) for process in three] == [0, 0, 0]
    [told] = ledger.lines("deadlock")
    circle = [victim, RING[victim], RING[RING[victim]], victim]
    assert (told["agent"], told["cycle"], told["code"]) == (victim, circle, "bus.deadlock")
    answered = {line["agent"]: line["by"] for line in ledger.lines("answered")}
    assert answered == {name: target for name, target in RING.items() if name != victim}
    [broke] = ledger.lines("broke")
    assert broke["agent"] == "c"
    # A tenth of this on a machine with nothing else to do.
    assert broke["after_s"] < 1.0
    async with empty_database.open() as store:
        [record] = await deadlocks(store)
        assert (record.victim, list(record.cycle)) == (victim, circle)
        assert record.given_up == (told["message"],)
        assert await store.find_messages(MessageFilter(states={"open"})) == []


CROWD = tuple(f"n{number}" for number in range(9))


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.slow)])
async def test_whoever_asks_whomever_in_whichever_process_nobody_is_left_waiting(
    empty_database: Database, ledger: Ledger, seed: int
) -> None:
    async with empty_database.open():
        pass
    jobs = [
        Job(
            task="ask_often",
            store=empty_database.url,
            folder=str(ledger.folder),
            agents=CROWD[part::3],
            everybody=CROWD,
            rounds=12,
            seed=seed,
        )
        for part in range(3)
    ]
    with processes(*jobs) as three:
        assert [process.wait(DEADLINE_S) for process in three] == [0, 0, 0]
    told = ledger.lines("deadlock")
    async with empty_database.open() as store:
        assert await find_present(store) == []
        assert await store.find_messages(MessageFilter(states={"open"})) == []
        recorded = await deadlocks(store, limit=1000)
        rows = await store.find_messages(limit=10_000)
    awaits = {(row.waiter, row.body["awaits"]) for row in rows}
    assert recorded, "nobody ever waited in a circle"
    for each in recorded:
        assert each.cycle[0] == each.cycle[-1] == each.victim
        assert set(pairwise(each.cycle)) <= awaits
    # One who has given up already may be told a second time before it has taken all queries back.
    assert {line["message"] for line in told} <= {
        name for each in recorded for name in each.given_up
    }
