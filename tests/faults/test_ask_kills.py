"""`kill -9` while agents ask each other and people: every question is answered, and once."""

from __future__ import annotations

import random
import signal

import pytest

from tests.faults.ask_scenarios import ASKS
from tests.faults.choosing import all_kills, marked, one_each
from tests.faults.databases import Database
from tests.faults.family import Family
from tests.faults.family_scene import FamilyReference, FamilyScene
from tests.faults.ledger import Ledger
from tests.faults.processes import Nursery
from tests.faults.scenario import DATABASES


@pytest.fixture
def scene(
    request: pytest.FixtureRequest, database: Database, session_id: str, ledger: Ledger
) -> FamilyScene:
    """A session of the scenario that the test names as its parameter."""
    return FamilyScene(request.param, database, session_id, ledger)


ALL_KILLS = list(all_kills(ASKS))
_OF_QUESTIONS = [kill for kill in ALL_KILLS if kill[2].startswith(("ask.", "plan."))]
QUICK_KILLS = one_each(_OF_QUESTIONS)


@pytest.mark.parametrize(
    ("database", "scene", "fault"), marked(ALL_KILLS, QUICK_KILLS), indirect=["database", "scene"]
)
async def test_a_run_killed_during_a_question_reaches_the_same_end(
    scene: FamilyScene,
    fault: str,
    victims: Nursery,
    rescuers: Nursery,
    unharmed_family: FamilyReference,
) -> None:
    dead, code = victims.run(scene.job, fault=fault)
    assert code == -signal.SIGKILL
    left = await scene.left_by(dead)
    rescuer, code = rescuers.run(scene.job)
    assert code == 0
    await scene.check_work(left, rescuer)
    await scene.check_end(unharmed_family)


EACH_SEED = [(database, seed) for database in DATABASES for seed in range(50)]
QUICK_SEEDS = {("postgres", 3)}


@pytest.mark.parametrize(
    ("database", "seed"), marked(EACH_SEED, QUICK_SEEDS), indirect=["database"]
)
async def test_recovering_processes_may_be_killed_during_questions(
    seed: int,
    database: Database,
    session_id: str,
    ledger: Ledger,
    victims: Nursery,
    unharmed_family: FamilyReference,
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
    await scene.check_end(unharmed_family)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(50))
async def test_a_run_with_questions_may_be_killed_at_any_instant(
    seed: int,
    database: Database,
    session_id: str,
    ledger: Ledger,
    victims: Nursery,
    unharmed_family: FamilyReference,
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
    await scene.check_end(unharmed_family)
