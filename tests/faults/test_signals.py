"""Ctrl-C and SIGTERM in the middle of a model call leave a session that can be resumed."""

from __future__ import annotations

import signal

import pytest

from tests.faults.choosing import marked
from tests.faults.conftest import Reference
from tests.faults.evidence import check_ending, check_work
from tests.faults.processes import Nursery, start
from tests.faults.scenarios import DATABASES
from tests.faults.scene import Scene
from tests.faults.waiting import DEADLINE_S, until

WAITING = [
    (database, *place)
    for database in DATABASES
    for place in (("relay", "1.1.m"), ("relay", "1.3.m"), ("streamed", "1.2.m"))
]
QUICK = {("sqlite", "relay", "1.3.m"), ("postgres", "streamed", "1.2.m")}

waiting_for_a_model = pytest.mark.parametrize(
    ("database", "scene", "step"), marked(WAITING, QUICK), indirect=["database", "scene"]
)


async def signalled(scene: Scene, step: str, number: signal.Signals) -> int:
    """The exit code of a process that got a signal while its model thought about `step`."""
    process = start(scene.job_with(hang_at=f"*/{step}"))
    try:
        await until(lambda: bool(scene.ledger.lines("model", step=step)), "the model is asked")
        process.send_signal(number)
        return process.wait(DEADLINE_S)
    finally:
        process.kill()


@waiting_for_a_model
async def test_an_interrupted_session_is_released_at_once(
    scene: Scene, step: str, rescuers: Nursery, unharmed: Reference
) -> None:
    assert await signalled(scene, step, signal.SIGINT) == -signal.SIGINT
    left = await scene.read()
    assert (left.row.status, left.row.outcome, left.row.owner) == ("idle", None, None)
    rescuer, code = rescuers.run(scene.job)
    assert code == 0
    check_work(left, scene.ledger, session=scene.session_id, rescuer=rescuer)
    ending = await scene.read()
    assert [event.details for event in ending.events if event.type == "agent_complete"] == [
        {"outcome": "cancelled"},
        None,
    ]
    check_ending(ending.without_cancellations(), scene.ledger, await unharmed(scene.job.scenario))


@waiting_for_a_model
async def test_a_terminated_session_is_free_when_its_lease_expires(
    scene: Scene, step: str, rescuers: Nursery, unharmed: Reference
) -> None:
    assert await signalled(scene, step, signal.SIGTERM) == -signal.SIGTERM
    left = await scene.left_by_the_dead()
    assert left is not None
    assert left.row.status == "ready"
    rescuer, code = rescuers.run(scene.job)
    assert code == 0
    check_work(left, scene.ledger, session=scene.session_id, rescuer=rescuer)
    check_ending(await scene.read(), scene.ledger, await unharmed(scene.job.scenario))
