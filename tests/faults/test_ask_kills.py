"""`kill -9` while agents ask each other and people: every question is answered, and once."""

from __future__ import annotations

import random
import signal
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from typing import Any, TypeAlias

import pytest

from ekiden.sessions import Session
from ekiden.storage.memory import MemoryStore
from tests.faults.ask_scenarios import ASKS
from tests.faults.child import Job, carry_on
from tests.faults.choosing import Kill, first_visits, marked, some
from tests.faults.databases import Database
from tests.faults.family import (
    Family,
    FamilyEnd,
    check_family_end,
    check_family_work,
    read_family,
)
from tests.faults.ledger import Ledger
from tests.faults.processes import Nursery
from tests.faults.scenario import DATABASES
from tests.faults.world import World

Reference: TypeAlias = Callable[[str], Awaitable[FamilyEnd]]


@pytest.fixture(scope="session")
def unharmed(tmp_path_factory: pytest.TempPathFactory) -> Reference:
    """What each scenario comes to when nobody is killed, by its name."""
    known: dict[str, FamilyEnd] = {}

    async def of(name: str) -> FamilyEnd:
        if name not in known:
            store, world = MemoryStore(), World(tmp_path_factory.mktemp(name))
            await carry_on(ASKS[name], world, Session("s", store=store))
            family = await read_family(store, "s")
            assert family is not None
            known[name] = FamilyEnd.of(family, world.ledger)
        return known[name]

    return of


class FamilyScene:
    """A session of one scenario with all whom it asks, and who works on them."""

    def __init__(self, scenario: str, database: Database, session_id: str, ledger: Ledger) -> None:
        self.database = database
        self.ledger = ledger
        self.job = Job(
            scenario=scenario, store=database.url, session=session_id, folder=str(ledger.folder)
        )

    def job_with(self, **changes: Any) -> Job:
        """The session's job, changed."""
        return replace(self.job, **changes)

    async def find(self) -> Family | None:
        """What is stored now."""
        async with self.database.open() as store:
            return await read_family(store, self.job.session)

    async def left_by(self, dead: int) -> Family | None:
        """What is stored; and the process has nothing any longer."""
        found = await self.find()
        await self.database.expire_leases_of(dead)
        return found

    async def check_work(self, before: Family | None, rescuer: int) -> None:
        """Whoever went on did what was left and nothing else."""
        after = await self.find()
        if after is not None:
            check_family_work(before, after, self.ledger, rescuer=rescuer)

    async def check_end(self, unharmed: Reference) -> None:
        """All is as it was meant to be."""
        async with self.database.open() as store:
            await check_family_end(
                store, self.job.session, self.ledger, await unharmed(self.job.scenario)
            )
        assert self.ledger.effects() == sorted(ASKS[self.job.scenario].effects)


@pytest.fixture
def scene(
    request: pytest.FixtureRequest, database: Database, session_id: str, ledger: Ledger
) -> FamilyScene:
    """A session for the scenario that the test names as its parameter."""
    return FamilyScene(request.param, database, session_id, ledger)


def _all_kills() -> Iterator[Kill]:
    for database in DATABASES:
        for name, scenario in ASKS.items():
            for point, visits in scenario.visits_on(database).items():
                for nth in range(1, visits + 1):
                    yield database, name, f"{point}:{nth}"


ALL_KILLS = list(_all_kills())
QUICK_KILLS = {
    *first_visits(ASKS, "sqlite"),
    *(kill for kill in ALL_KILLS if kill[0] == "sqlite" and kill[2].startswith("ask.")),
    *(kill for kill in ALL_KILLS if kill[:2] == ("postgres", "asked") and "ask." in kill[2]),
    *some(ALL_KILLS, 10),
}
"""Each point once, on SQLite; those of questions wherever one is asked; some of all the others."""


@pytest.mark.parametrize(
    ("database", "scene", "fault"), marked(ALL_KILLS, QUICK_KILLS), indirect=["database", "scene"]
)
async def test_killed_while_others_are_asked_it_ends_as_if_it_had_not_been_killed(
    scene: FamilyScene, fault: str, victims: Nursery, rescuers: Nursery, unharmed: Reference
) -> None:
    dead, code = victims.run(scene.job, fault=fault)
    assert code == -signal.SIGKILL
    left = await scene.left_by(dead)
    rescuer, code = rescuers.run(scene.job)
    assert code == 0
    await scene.check_work(left, rescuer)
    await scene.check_end(unharmed)


EACH_SEED = [(database, seed) for database in DATABASES for seed in range(50)]
QUICK_SEEDS = {("sqlite", 0), ("sqlite", 1), ("sqlite", 2), ("postgres", 3)}


@pytest.mark.parametrize(
    ("database", "seed"), marked(EACH_SEED, QUICK_SEEDS), indirect=["database"]
)
async def test_those_who_go_on_with_questions_may_be_killed_too(
    seed: int,
    database: Database,
    session_id: str,
    ledger: Ledger,
    victims: Nursery,
    unharmed: Reference,
) -> None:
    chance = random.Random(seed)
    scene = FamilyScene(chance.choice(list(ASKS)), database, session_id, ledger)
    visits = ASKS[scene.job.scenario].visits_on(database.name)
    left: Family | None = None
    for _ in range(chance.randint(2, 6)):
        point, times = chance.choice(list(visits.items()))
        pid, code = victims.run(scene.job, fault=f"{point}:{chance.randint(1, times)}")
        assert code in (0, -signal.SIGKILL)
        await scene.check_work(left, pid)
        left = await scene.left_by(pid)
    pid, code = victims.run(scene.job)
    assert code == 0
    await scene.check_work(left, pid)
    await scene.check_end(unharmed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(50))
async def test_questions_may_be_killed_from_outside_at_any_instant(
    seed: int,
    database: Database,
    session_id: str,
    ledger: Ledger,
    victims: Nursery,
    unharmed: Reference,
) -> None:
    chance = random.Random(seed)
    scene = FamilyScene(chance.choice(list(ASKS)), database, session_id, ledger)
    left: Family | None = None
    patience_s, ended = 0.05, False
    while not ended:
        child = victims.start(scene.job)
        ended = child.kill_after(chance.uniform(0.0, patience_s)) == 0
        await scene.check_work(left, child.pid)
        left = await scene.left_by(child.pid)
        patience_s *= 1.2
    await scene.check_end(unharmed)
