"""`kill -9` at every fault point: after a restart the run ends as if nothing had happened."""

from __future__ import annotations

import random
import signal

import pytest

from tests.faults.choosing import all_kills, marked, one_each
from tests.faults.conftest import Reference
from tests.faults.databases import Database
from tests.faults.evidence import check_ending, check_work
from tests.faults.ledger import Ledger
from tests.faults.processes import Nursery, start
from tests.faults.scenarios import DATABASES, SCENARIOS
from tests.faults.scene import Scene
from tests.faults.waiting import DEADLINE_S

ALL_KILLS = list(all_kills(SCENARIOS))
KILLS = marked(
    ALL_KILLS,
    [*one_each(ALL_KILLS), ("sqlite", "relay", "handoff.transferring.before_commit:1")],
)


@pytest.mark.parametrize(("database", "scene", "fault"), KILLS, indirect=["database", "scene"])
async def test_a_killed_run_reaches_the_same_end(
    scene: Scene, fault: str, victims: Nursery, rescuers: Nursery, unharmed: Reference
) -> None:
    _, code = victims.run(scene.job, fault=fault)
    assert code == -signal.SIGKILL
    left = await scene.left_by_the_dead()
    rescuer, code = rescuers.run(scene.job)
    assert code == 0
    check_work(left, scene.ledger, session=scene.session_id, rescuer=rescuer)
    check_ending(await scene.read(), scene.ledger, await unharmed(scene.job.scenario))


ARMED = [
    (database, point)
    for database in DATABASES
    for point in ("turn.tool.after_call", "handoff.transferring.before_commit")
]


@pytest.mark.parametrize("scene", ["relay"], indirect=True)
@pytest.mark.parametrize(("database", "point"), marked(ARMED, ARMED[:1]), indirect=["database"])
async def test_the_environment_of_any_program_can_arm_a_fault_point(
    scene: Scene, point: str, unharmed: Reference
) -> None:
    killed = start(scene.job, fault=point)
    assert killed.wait(DEADLINE_S) == -signal.SIGKILL
    left = await scene.left_by_the_dead()
    rescuer = start(scene.job)
    assert rescuer.wait(DEADLINE_S) == 0
    check_work(left, scene.ledger, session=scene.session_id, rescuer=rescuer.pid)
    check_ending(await scene.read(), scene.ledger, await unharmed("relay"))


SEEDS = marked(
    [(database, seed) for database in DATABASES for seed in range(50)], {("postgres", 0)}
)


@pytest.mark.parametrize(("database", "seed"), SEEDS, indirect=["database"])
async def test_recovering_processes_may_be_killed(
    seed: int,
    database: Database,
    session_id: str,
    ledger: Ledger,
    victims: Nursery,
    unharmed: Reference,
) -> None:
    chance = random.Random(seed)
    scene = Scene(chance.choice(list(SCENARIOS)), database, session_id, ledger)
    visits = SCENARIOS[scene.job.scenario].visits_on(database.name)
    for _ in range(chance.randint(2, 6)):
        point, times = chance.choice(list(visits.items()))
        left = await scene.left_by_the_dead()
        pid, code = victims.run(scene.job, fault=f"{point}:{chance.randint(1, times)}")
        assert code in (0, -signal.SIGKILL)
        check_work(left, ledger, session=session_id, rescuer=pid)
    left = await scene.left_by_the_dead()
    pid, code = victims.run(scene.job)
    assert code == 0
    check_work(left, ledger, session=session_id, rescuer=pid)
    check_ending(await scene.read(), ledger, await unharmed(scene.job.scenario))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(50))
async def test_a_run_may_be_killed_at_any_instant(
    seed: int,
    database: Database,
    session_id: str,
    ledger: Ledger,
    victims: Nursery,
    unharmed: Reference,
) -> None:
    chance = random.Random(seed)
    scene = Scene(chance.choice(list(SCENARIOS)), database, session_id, ledger)
    patience_s, ended = 0.05, False
    while not ended:
        left = await scene.left_by_the_dead()
        child = victims.start(scene.job)
        ended = child.kill_after(chance.uniform(0.0, patience_s)) == 0
        check_work(left, ledger, session=session_id, rescuer=child.pid)
        patience_s *= 1.2
    check_ending(await scene.read(), ledger, await unharmed(scene.job.scenario))
