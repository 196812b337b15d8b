"""Two processes share the sessions of one database, and one of them may die."""

from __future__ import annotations

import os
import signal
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from ekiden.engine import submit
from ekiden.sessions import Session
from ekiden.storage.base import SessionFilter, Store
from tests.faults.child import Job
from tests.faults.databases import Database
from tests.faults.evidence import check_log, read
from tests.faults.ledger import Ledger
from tests.faults.processes import start
from tests.faults.scenarios import DATABASES, SCENARIOS
from tests.faults.waiting import DEADLINE_S, until
from tests.faults.world import World

SESSIONS = 100
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
def two_workers(
    database: Database, ledger: Ledger, *, lease_s: float = 30.0, first_hangs_at: str = ""
) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Two processes that wait for the word; neither does anything before both have begun."""
    job = Job(task="work", store=database.url, folder=str(ledger.folder), lease_s=lease_s, meet=2)
    workers = [start(replace(job, hang_at=first_hangs_at)), start(job)]
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


async def check_all_done(database: Database, ledger: Ledger) -> None:
    """Each session has its answer, each step is in the log once, each effect happened once."""
    async with database.open() as store:
        assert (await store.list(SessionFilter(status="ready"), limit=1)).sessions == []
        for name in NAMES:
            record = await read(store, name)
            assert record is not None
            check_log(record, entry="triage")
            row = record.row
            assert (row.outcome, row.owner, row.agent) == ("done", None, "billing")
            assert [event.step for event in record.events if event.step] == STEPS
    assert ledger.effects() == sorted(NAMES)


def check_no_work_twice(ledger: Ledger, *, but: int | None = None) -> None:
    """No effect was made by a second process, other than process `but`."""
    attempts = Counter(line["key"] for line in ledger.lines("attempt") if line["pid"] != but)
    assert [key for key, times in attempts.items() if times > 1] == []
    asked = Counter(
        (line["session"], line["step"]) for line in ledger.lines("model") if line["pid"] != but
    )
    assert [step for step, times in asked.items() if times > 1] == []


STEPS = ["1.1.m", "1.1.h", "1.2.m", "1.2.t0", "1.3.m", "1.3.h", "1.4.m"]


@pytest.mark.parametrize(
    "empty_database",
    ["postgres", pytest.param("sqlite", marks=pytest.mark.slow)],
    indirect=True,
)
async def test_two_processes_run_every_session_once(
    empty_database: Database, ledger: Ledger
) -> None:
    await prepare(empty_database, ledger)
    with two_workers(empty_database, ledger) as workers:
        await let_them_begin(ledger)
        assert [worker.wait(DEADLINE_S) for worker in workers] == [0, 0]
    finished = [line["value"] for line in ledger.lines("result")]
    assert sum(finished) == SESSIONS
    assert all(finished), "one of the processes did nothing"
    await check_all_done(empty_database, ledger)
    check_no_work_twice(ledger)
    assert len(ledger.lines("model")) == 4 * SESSIONS
    assert len(ledger.lines("attempt")) == SESSIONS


ENDS = [
    pytest.param(
        database,
        number,
        marks=[] if (database, number) == ("postgres", signal.SIGKILL) else pytest.mark.slow,
        id=f"{database}-{number.name}",
    )
    for database in DATABASES
    for number in (signal.SIGKILL, signal.SIGINT)
]


@pytest.mark.parametrize(("empty_database", "number"), ENDS, indirect=["empty_database"])
async def test_when_one_of_two_workers_ends_the_other_finishes_everything(
    empty_database: Database, ledger: Ledger, number: signal.Signals
) -> None:
    await prepare(empty_database, ledger)
    # Its sessions hold the victim up, so that it cannot be done before it is hit.
    with two_workers(empty_database, ledger, first_hangs_at="*/1.4.m") as (victim, survivor):
        await let_them_begin(ledger)
        await until(
            lambda: bool(ledger.lines("model", pid=victim.pid, step="1.4.m")), "it cannot end"
        )
        os.kill(victim.pid, number)
        assert victim.wait(DEADLINE_S) == -number
        if number == signal.SIGKILL:
            await empty_database.expire_leases_of(victim.pid)
        assert survivor.wait(DEADLINE_S) == 0
    assert ledger.lines("result", pid=victim.pid) == []
    await check_all_done(empty_database, ledger)
    check_no_work_twice(ledger, but=victim.pid)


@pytest.mark.parametrize(
    "empty_database",
    ["sqlite", pytest.param("postgres", marks=pytest.mark.slow)],
    indirect=True,
)
async def test_a_worker_that_slept_beyond_its_leases_changes_nothing_when_it_wakes(
    empty_database: Database, ledger: Ledger
) -> None:
    await prepare(empty_database, ledger)
    with two_workers(empty_database, ledger, lease_s=1.0) as (sleeper, other):
        await until(lambda: len(ledger.lines("worker")) == 2, "both workers are ready")
        os.kill(other.pid, signal.SIGSTOP)
        (ledger.folder / "go").touch()
        await until(lambda: bool(ledger.lines("comes")), "it is at work, and waits for the other")
        os.kill(sleeper.pid, signal.SIGSTOP)
        os.kill(other.pid, signal.SIGCONT)
        async with empty_database.open() as store:
            while await has_leases(store, sleeper.pid):
                await store.wait_for_change(0.1)
        os.kill(sleeper.pid, signal.SIGCONT)
        assert [process.wait(DEADLINE_S) for process in (sleeper, other)] == [0, 0]
    await check_all_done(empty_database, ledger)


async def has_leases(store: Store, pid: int) -> bool:
    """Whether the process owns a session."""
    page = await store.list(SessionFilter(status="ready"), limit=2 * SESSIONS)
    return any(f"-{pid}-" in (row.owner or "") for row in page.sessions)
