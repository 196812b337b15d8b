"""A worker dies, and another one takes its sessions over without any command."""

from __future__ import annotations

import signal
from dataclasses import replace

import pytest

from ekiden.engine import submit
from ekiden.sessions import Session
from tests.faults.child import Job
from tests.faults.databases import Database
from tests.faults.evidence import check_log, read
from tests.faults.ledger import Ledger
from tests.faults.processes import Nursery
from tests.faults.scenarios import SCENARIOS
from tests.faults.waiting import until
from tests.faults.world import World

NAMES = ["s1", "s2", "s3"]


@pytest.mark.parametrize("empty_database", ["sqlite", "postgres"], indirect=True)
async def test_the_sessions_of_a_dead_worker_are_taken_over_after_their_leases(
    empty_database: Database, ledger: Ledger, victims: Nursery, rescuers: Nursery
) -> None:
    team = SCENARIOS["relay"].team(World(ledger.folder))
    async with empty_database.open() as store:
        for name in NAMES:
            await submit(team, f"please book {name}", session=Session(name, store=store))
        job = Job(task="toil", store=empty_database.url, folder=str(ledger.folder))
        victim = victims.start(replace(job, hang_at="*/1.3.m"))
        await until(lambda: len(ledger.lines("model", step="1.3.m")) == len(NAMES), "all hang")
        epochs = {name: (await store.get(name)).epoch for name in NAMES}
        victims.kill_child()
        assert victim.wait() == -signal.SIGKILL
        await empty_database.expire_leases_of(victim.pid, in_s=0.5)
        rescuer, code = rescuers.run(job)
        assert code == 0
        for name in NAMES:
            record = await read(store, name)
            assert record is not None
            check_log(record, entry="triage")
            assert (record.row.outcome, record.row.agent) == ("done", "billing")
            assert record.row.epoch == epochs[name] + 1
    assert ledger.effects() == NAMES
    assert len(ledger.lines("attempt", pid=rescuer)) == 0, "the tool's result was stored"
