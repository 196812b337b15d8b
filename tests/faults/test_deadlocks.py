"""Agents in several processes wait for each other in circles, and none is left waiting."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from random import Random
from typing import Any

import pytest

from ekiden.bus import Bus
from ekiden.bus.deadlocks import deadlocks, find_present
from ekiden.core.conversation.messages import VictimPolicy
from ekiden.storage.base import MessageFilter
from tests.faults import bus_agents, waiters
from tests.faults.databases import Database
from tests.faults.ledger import Ledger
from tests.faults.waiting import DEADLINE_S, until

RING = {"a": "b", "b": "c", "c": "a"}
CROWD = tuple(f"n{number}" for number in range(9))


@contextmanager
def processes(
    start: Callable[[Any], subprocess.Popen[bytes]], jobs: Sequence[object]
) -> Iterator[list[subprocess.Popen[bytes]]]:
    """One for each job; none of them outlives the test."""
    started = [start(job) for job in jobs]
    try:
        yield started
    finally:
        for process in started:
            process.kill()
            process.wait(DEADLINE_S)


async def let_them_end(ledger: Ledger, three: Sequence[subprocess.Popen[bytes]]) -> None:
    """Everybody has done what there was to do."""
    (ledger.folder / "stop").touch()
    ends = [await asyncio.to_thread(process.wait, DEADLINE_S) for process in three]
    assert ends == [0, 0, 0]


@pytest.mark.parametrize(
    ("policy", "victim"),
    [("longest", "a"), pytest.param("youngest", "c", marks=pytest.mark.slow)],
)
async def test_a_cycle_across_three_processes_is_broken_when_it_closes(
    empty_database: Database, ledger: Ledger, policy: VictimPolicy, victim: str
) -> None:
    async with empty_database.open() as store, Bus(store) as bus:
        jobs = [
            bus_agents.Job(
                store=empty_database.url,
                folder=str(ledger.folder),
                agents={name: [target]},
                policy=policy,
            )
            for name, target in RING.items()
        ]
        with processes(bus_agents.start, jobs) as three:
            await until(lambda: len(ledger.lines("here")) == 3, "all are there")
            # The third of three questions comes back to the one who asked first, and who waits.
            answer = await bus.agent("outside").ask("a", "begin", [3, 0], timeout_s=DEADLINE_S)
            assert answer == "a"
            both = set(RING) - {victim}
            await until(lambda: len(ledger.lines("answered")) == 2, f"{both} go on")
            await let_them_end(ledger, three)
        [told] = ledger.lines("deadlock")
        circle = [victim, RING[victim], RING[RING[victim]], victim]
        assert (told["agent"], told["cycle"], told["code"]) == (victim, circle, "bus.deadlock")
        assert {line["agent"] for line in ledger.lines("answered")} == both
        [record] = await deadlocks(store)
        assert (record.victim, list(record.cycle), record.policy) == (victim, circle, policy)
        assert record.given_up == (told["message"],)
        rows = {row.waiter: row for row in await store.find_messages(MessageFilter(waiters="abc"))}
        settled_us = rows[victim].settled_at_us
        assert settled_us is not None
        # The look that needs no hint comes after 20 s. On an idle machine this takes 0.1 s.
        assert settled_us - rows["c"].created_at_us < 10_000_000
        assert await store.find_messages(MessageFilter(states={"open"})) == []


async def test_no_asker_on_the_bus_is_left_waiting_in_a_cycle(
    empty_database: Database, ledger: Ledger
) -> None:
    async with empty_database.open() as store, Bus(store) as bus:
        jobs = [
            bus_agents.Job(
                store=empty_database.url,
                folder=str(ledger.folder),
                agents={name: [each for each in CROWD if each != name] for name in CROWD[part::3]},
            )
            for part in range(3)
        ]
        with processes(bus_agents.start, jobs) as three:
            await until(lambda: len(ledger.lines("here")) == len(CROWD), "all are there")
            random = Random(7)
            seat = bus.agent("outside")
            async with asyncio.timeout(DEADLINE_S):
                answers = await asyncio.gather(
                    *(
                        seat.ask(name, "begin", [3, random.random()], timeout_s=DEADLINE_S)
                        for name in [*CROWD, *CROWD]
                    )
                )
            assert answers == [*CROWD, *CROWD]
            await let_them_end(ledger, three)
        assert await find_present(store) == []
        recorded = await deadlocks(store, limit=1000)
    assert recorded, "nobody ever waited in a circle"
    assert ledger.lines("failed") == []
    assert {line["message"] for line in ledger.lines("deadlock")} <= {
        name for each in recorded for name in each.given_up
    }


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
async def test_no_waiter_in_a_store_is_left_waiting_in_a_cycle(
    empty_database: Database, ledger: Ledger, seed: int
) -> None:
    async with empty_database.open() as store:
        jobs = [
            waiters.Job(
                store=empty_database.url,
                folder=str(ledger.folder),
                agents=list(CROWD[part::3]),
                everybody=list(CROWD),
                rounds=12,
                seed=seed,
            )
            for part in range(3)
        ]
        with processes(waiters.start, jobs) as three:
            await let_them_end(ledger, three)
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
    given_up = {name for each in recorded for name in each.given_up}
    assert {line["message"] for line in ledger.lines("deadlock")} <= given_up
