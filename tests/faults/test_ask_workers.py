"""Workers that share sessions which ask each other, and one of them is killed."""

from __future__ import annotations

import random
import signal

import pytest

from ekiden.engine import submit
from ekiden.sessions import Session
from tests.faults.ask_scenarios import ASKS
from tests.faults.child import Job
from tests.faults.choosing import marked
from tests.faults.databases import Database
from tests.faults.family import check_no_session_waits, read_family
from tests.faults.ledger import Ledger
from tests.faults.processes import Nursery, start
from tests.faults.scenario import DATABASES
from tests.faults.waiting import DEADLINE_S
from tests.faults.world import World

SESSIONS = 6
SCENARIOS = ("asked", "compared")
"""In the others people have to decide something."""
POINTS = (
    "ask.question.before_commit", "ask.question.after_commit", "ask.answers.before_commit",
    "ask.answers.after_commit", "run.finish.before_commit", "run.finish.after_commit",
    "code.tool.after_call", "code.tool.after_commit", "turn.tool.after_call",
)  # fmt: skip

EACH = [(database, seed) for database in DATABASES for seed in range(40)]
QUICK = {("sqlite", 0), ("sqlite", 1), ("postgres", 2)}


@pytest.mark.parametrize(
    ("empty_database", "seed"), marked(EACH, QUICK), indirect=["empty_database"]
)
async def test_all_sessions_end_despite_a_killed_worker(
    empty_database: Database, ledger: Ledger, seed: int, victims: Nursery, rescuers: Nursery
) -> None:
    chance = random.Random(seed)
    name = chance.choice(SCENARIOS)
    names = [f"s{number}" for number in range(SESSIONS)]
    team = ASKS[name].team(World(ledger.folder))
    async with empty_database.open() as store:
        for each in names:
            await submit(team, "please book A-42", session=Session(each, store=store))
    job = Job(task="toil", scenario=name, store=empty_database.url, folder=str(ledger.folder))
    fault = f"{chance.choice(POINTS)}:{chance.randint(1, 2 * SESSIONS)}"
    survivors = [rescuers.start(job)]
    others = [start(job)] if seed % 4 == 3 else []
    dead, code = victims.run(job, fault=fault)
    assert code in (0, -signal.SIGKILL)
    await empty_database.expire_leases_of(dead)
    assert [child.wait() for child in survivors] == [0]
    assert [process.wait(DEADLINE_S) for process in others] == [0] * len(others)
    async with empty_database.open() as store:
        for each in names:
            family = await read_family(store, each)
            assert family is not None
            await check_no_session_waits(store, family)
    assert ledger.effects() == sorted(ASKS[name].effects * SESSIONS)
