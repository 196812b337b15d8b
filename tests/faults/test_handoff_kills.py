"""`kill -9` at every fault point of every kind of handoff: it is wholly made or wholly undone."""

from __future__ import annotations

import random
import signal

import pytest

from tests.faults.aftermath import check_people_asked, check_settled
from tests.faults.choosing import all_kills, marked, one_each
from tests.faults.conftest import Reference
from tests.faults.databases import Database
from tests.faults.evidence import Record, check_ending, check_work
from tests.faults.handoff_scenarios import HANDOFFS, POLICIES
from tests.faults.ledger import Ledger
from tests.faults.processes import Nursery
from tests.faults.scenario import DATABASES
from tests.faults.scene import Scene

LEAST_POINTS = 20
"""That each policy is killed at."""
ALL_KILLS = list(all_kills(HANDOFFS))
KILLS = marked(
    ALL_KILLS,
    [*one_each(ALL_KILLS), ("sqlite", "immediate", "handoff.compensation.after_call:1")],
)


async def check_end(scene: Scene, left: Record | None, rescuer: int, unharmed: Reference) -> None:
    """Whoever took the session to its end did what was left and nothing else; all is as it was
    meant to be."""
    ending = await scene.read()
    check_work(left, scene.ledger, session=scene.session_id, rescuer=rescuer)
    check_people_asked(left, ending, scene.ledger, rescuer)
    check_settled(ending, scene.ledger, HANDOFFS[scene.job.scenario])
    check_ending(ending, scene.ledger, await unharmed(scene.job.scenario))


@pytest.mark.parametrize(("database", "scene", "fault"), KILLS, indirect=["database", "scene"])
async def test_a_handoff_is_complete_or_rolled_back_after_a_kill(
    scene: Scene, fault: str, victims: Nursery, rescuers: Nursery, unharmed: Reference
) -> None:
    _, code = victims.run(scene.job, fault=fault)
    assert code == -signal.SIGKILL
    left = await scene.left_by_the_dead()
    rescuer, code = rescuers.run(scene.job)
    assert code == 0
    await check_end(scene, left, rescuer, unharmed)


SEEDS = [
    pytest.param(database, seed, marks=pytest.mark.slow if seed or database != "sqlite" else [])
    for database in DATABASES
    for seed in range(50)
]


@pytest.mark.parametrize(("database", "seed"), SEEDS, indirect=["database"])
async def test_recovering_processes_may_be_killed_during_a_handoff(
    seed: int,
    database: Database,
    session_id: str,
    ledger: Ledger,
    victims: Nursery,
    unharmed: Reference,
) -> None:
    chance = random.Random(seed)
    scene = Scene(chance.choice(list(HANDOFFS)), database, session_id, ledger)
    visits = HANDOFFS[scene.job.scenario].visits_on(database.name)
    for _ in range(chance.randint(2, 6)):
        point, times = chance.choice(list(visits.items()))
        left = await scene.left_by_the_dead()
        pid, code = victims.run(scene.job, fault=f"{point}:{chance.randint(1, times)}")
        assert code in (0, -signal.SIGKILL)
        check_work(left, ledger, session=session_id, rescuer=pid)
    left = await scene.left_by_the_dead()
    pid, code = victims.run(scene.job)
    assert code == 0
    await check_end(scene, left, pid, unharmed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(50))
async def test_a_handoff_may_be_killed_at_any_instant(
    seed: int,
    database: Database,
    session_id: str,
    ledger: Ledger,
    victims: Nursery,
    unharmed: Reference,
) -> None:
    chance = random.Random(seed)
    scene = Scene(chance.choice(list(HANDOFFS)), database, session_id, ledger)
    patience_s = 0.05
    while True:
        left = await scene.left_by_the_dead()
        child = victims.start(scene.job)
        ended = child.kill_after(chance.uniform(0.0, patience_s)) == 0
        if ended:
            break
        check_work(left, ledger, session=session_id, rescuer=child.pid)
        patience_s *= 1.2
    await check_end(scene, left, child.pid, unharmed)


@pytest.mark.parametrize("scene", POLICIES, indirect=True)
def test_every_policy_is_killed_at_twenty_or_more_points(scene: Scene, victims: Nursery) -> None:
    pid, code = victims.run(scene.job_with(task="count"))
    assert code == 0
    [counted] = scene.ledger.lines("result", pid=pid)
    killed = {
        fault.partition(":")[0]
        for database, name, fault in ALL_KILLS
        if (database, name) == (scene.database.name, scene.job.scenario)
    }
    assert killed == set(counted["value"])
    assert len(killed) >= LEAST_POINTS
