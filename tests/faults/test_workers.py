"""Two processes share the sessions of one database, and one of them may die."""

from __future__ import annotations

import os
import signal
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from ekiden.engine import submit
from ekiden.sessions import Session
from ekiden.storage.base import SessionFilter, Store
from tests.faults.child import Job
from tests.faults.databases import Database
from tests.faults.evidence import check_log, read
from tests.faults.ledger import Ledger
from tests.faults.processes import start
from tests.faults.scenarios import SCENARIOS
from tests.faults.waiting import DEADLINE_S, until
from tests.faults.world import World

SESSIONS = 200
LEASE_S = 2.0
NAMES = [f"s{number}" for number in range(SESSIONS)]


async def prepare(database: Database, ledger: Ledger) -> None:
    """Store a message in each session without running any."""
    team = SCENARIOS["relay"].team(World(ledger.folder))
    async with database.open() as store:
        for name in NAMES:
            await submit(team, f"please book {name}", session=Session(name, store=store))
        ready = await store.list(SessionFilter(status="ready"), limit=2 * SESSIONS)
        assert len(ready.sessions) == SESSIONS


@contextmanager
def two_workers(database: Database, ledger: Ledger) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Two processes that wait for the word."""
    job = Job(task="work", store=database.url, folder=str(ledger.folder), lease_s=LEASE_S)
    workers = [start(job), start(job)]
    try:
        yield workers
    finally:
        for worker in workers:
            worker.kill()
            worker.wait(DEADLINE_S)


async def let_them_begin(ledger: Ledger) -> None:
    """Give the word as soon as both are there."""
    await until(lambda: len(ledger.lines("worker")) == 2, "both workers are ready")
    (ledger.folder / "go").touch()


async def check_all_done(store: Store, ledger: Ledger, *, dead: int | None = None) -> None:
    """Each session has its answer, each step is in the log once, each effect happened once."""
    assert (await store.list(SessionFilter(status="ready"), limit=1)).sessions == []
    for name in NAMES:
        record = await read(store, name)
        assert record is not None
        check_log(record, entry="triage")
        assert (record.row.outcome, record.row.owner, record.row.agent) == ("done", None, "billing")
        assert [event.step for event in record.events if event.step] == STEPS
    assert ledger.effects() == sorted(NAMES)
    living = [line for line in ledger.lines("attempt") if line["pid"] != dead]
    twice = [key for key, times in Counter(line["key"] for line in living).items() if times > 1]
    assert twice == []
    asked = [line for line in ledger.lines("model") if line["pid"] != dead]
    times = Counter((line["session"], line["step"]) for line in asked)
    assert [step for step, count in times.items() if count > 1] == []


STEPS = ["1.1.m", "1.1.h", "1.2.m", "1.2.t0", "1.3.m", "1.3.h", "1.4.m"]


async def test_two_processes_do_every_session_once(
    empty_database: Database, ledger: Ledger
) -> None:
    await prepare(empty_database, ledger)
    with two_workers(empty_database, ledger) as workers:
        await let_them_begin(ledger)
        assert [worker.wait(DEADLINE_S) for worker in workers] == [0, 0]
    finished = [line["value"] for line in ledger.lines("result")]
    assert sum(finished) == SESSIONS
    assert all(finished), "one of the processes did nothing"
    async with empty_database.open() as store:
        await check_all_done(store, ledger)
    assert len(ledger.lines("model")) == 4 * SESSIONS
    assert len(ledger.lines("attempt")) == SESSIONS


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT], ids=lambda each: each.name)
async def test_when_one_of_two_processes_ends_the_other_finishes_everything(
    empty_database: Database, ledger: Ledger, number: signal.Signals
) -> None:
    await prepare(empty_database, ledger)
    with two_workers(empty_database, ledger) as (victim, survivor):
        await let_them_begin(ledger)
        await until(lambda: len(ledger.lines("attempt", pid=victim.pid)) >= 20, "much is under way")
        os.kill(victim.pid, number)
        assert victim.wait(DEADLINE_S) == -number
        assert survivor.wait(DEADLINE_S) == 0
    async with empty_database.open() as store:
        await check_all_done(store, ledger, dead=victim.pid)
    assert ledger.lines("result", pid=victim.pid) == []
