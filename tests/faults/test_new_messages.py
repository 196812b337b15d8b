"""A new message, instead of a resume of the killed run, gets an answer."""

from __future__ import annotations

import signal

import pytest

from ekiden.runtime import Runner
from ekiden.sessions import Session
from tests.faults.choosing import marked, some
from tests.faults.evidence import check_log, read
from tests.faults.processes import Nursery
from tests.faults.scenarios import DATABASES, SCENARIOS
from tests.faults.scene import Scene
from tests.faults.world import World

KILLS = [
    (database, name, point)
    for database in DATABASES
    for name in ("relay", "parallel", "code")
    for point in SCENARIOS[name].visits
    if not point.startswith(("run.begin.before", "run.finish.after"))
]


@pytest.mark.parametrize(
    ("database", "scene", "fault"), marked(KILLS, some(KILLS, 4)), indirect=["database", "scene"]
)
async def test_a_new_message_after_a_kill_is_answered(
    scene: Scene, fault: str, victims: Nursery
) -> None:
    _, code = victims.run(scene.job, fault=fault)
    assert code == -signal.SIGKILL
    left = await scene.left_by_the_dead()
    assert left is not None
    world, scenario = World(scene.ledger.folder), SCENARIOS[scene.job.scenario]
    async with scene.database.open() as store:
        session = Session(scene.session_id, store=store)
        result = await Runner.run(scenario.team(world), "and now Z-9", session=session)
        record = await read(store, scene.session_id)
    assert result.outcome.kind == "done"
    assert record is not None
    check_log(record, entry=scene.entry)
    assert record.log[: len(left.log)] == left.log
