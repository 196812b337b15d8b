"""A process that is stopped beyond its lease and then woken writes nothing."""

from __future__ import annotations

import pytest

from tests.faults.child import REFUSED
from tests.faults.choosing import marked, one_each, some
from tests.faults.conftest import Reference
from tests.faults.evidence import check_ending, check_work
from tests.faults.processes import Child, Nursery
from tests.faults.scenarios import DATABASES, SCENARIOS
from tests.faults.scene import Scene
from tests.faults.waiting import until

LAST = "run.finish.after_commit"
"""Nothing is written after this point."""

_STOPS = [
    ("relay", f"{point}:{nth}:stop")
    for point, visits in SCENARIOS["relay"].visits.items()
    for nth in range(1, min(visits, 2) + 1)
    if point != LAST
] + [
    ("filtered", "handoff.validating.after_callback:1:stop"),
    ("filtered", "handoff.filter.after_call:1:stop"),
    ("parallel", "turn.tools.after_remember:1:stop"),
    ("rollback", "handoff.rollback.before_commit:1:stop"),
    ("code", "code.tool.after_call:1:stop"),
    ("code", "code.answer.after_run:1:stop"),
    ("conditional", "handoff.confirmation.after_commit:1:stop"),
    ("conditional", "handoff.compensation.after_call:1:stop"),
    ("program", "handoff.start.after_claim:1:stop"),
]
STOPS = [
    *((database, *stop) for database in DATABASES for stop in _STOPS),
    # SQLite's other point is within a transaction: nobody can take over from who stops there.
    ("sqlite", "relay", "store.sqlite.after_commit:3:stop"),
    ("postgres", "relay", "store.postgres.before_commit:3:stop"),
    ("postgres", "relay", "store.postgres.after_commit:3:stop"),
]


QUICK_STOPS = [
    *one_each([stop for stop in STOPS if stop[0] == "sqlite"]),
    ("postgres", "relay", "store.postgres.before_commit:3:stop"),
]


def assert_refused(victim: Child, scene: Scene) -> None:
    """The woken process ended because it may no longer write."""
    assert victim.wait() == REFUSED
    [error] = scene.ledger.lines("error", pid=victim.pid)
    assert error["code"] == "session.lease_lost"


@pytest.mark.parametrize(
    ("database", "scene", "fault"), marked(STOPS, QUICK_STOPS), indirect=["database", "scene"]
)
async def test_a_process_that_wakes_after_a_takeover_is_refused(
    scene: Scene, fault: str, victims: Nursery, rescuers: Nursery, unharmed: Reference
) -> None:
    victim = victims.start(scene.job, fault=fault)
    victim.wait_until_stopped()
    left = await scene.left_by_the_dead()
    rescuer, code = rescuers.run(scene.job)
    assert code == 0
    ended = await scene.read()
    victim.go_on()
    assert_refused(victim, scene)
    assert (await scene.read()).content == ended.content
    check_work(left, scene.ledger, session=scene.session_id, rescuer=rescuer)
    check_ending(ended, scene.ledger, await unharmed(scene.job.scenario))


@pytest.mark.parametrize(
    ("database", "scene", "fault"), marked(STOPS, some(STOPS, 3)), indirect=["database", "scene"]
)
async def test_a_process_that_wakes_after_its_lease_is_refused_without_a_takeover(
    scene: Scene, fault: str, victims: Nursery, rescuers: Nursery, unharmed: Reference
) -> None:
    victim = victims.start(scene.job, fault=fault)
    victim.wait_until_stopped()
    left = await scene.left_by_the_dead()
    assert left is not None
    victim.go_on()
    assert_refused(victim, scene)
    assert (await scene.read()).content == left.content
    rescuer, code = rescuers.run(scene.job)
    assert code == 0
    check_work(left, scene.ledger, session=scene.session_id, rescuer=rescuer)
    check_ending(await scene.read(), scene.ledger, await unharmed(scene.job.scenario))


@pytest.mark.parametrize("scene", ["relay"], indirect=True)
async def test_a_process_that_wakes_after_storing_everything_ends_normally(
    scene: Scene, victims: Nursery, unharmed: Reference
) -> None:
    victim = victims.start(scene.job, fault=f"{LAST}:1:stop")
    victim.wait_until_stopped()
    await scene.left_by_the_dead()
    victim.go_on()
    assert victim.wait() == 0
    check_ending(await scene.read(), scene.ledger, await unharmed("relay"))


@pytest.mark.parametrize("scene", ["relay"], indirect=True)
async def test_a_lease_expires_while_its_owner_is_stopped(
    scene: Scene, victims: Nursery, rescuers: Nursery, unharmed: Reference
) -> None:
    victim = victims.start(scene.job, fault="turn.answer.before_commit:1:stop")
    victim.wait_until_stopped()
    left = await scene.read()
    await scene.database.expire_lease(scene.session_id, in_s=0.5)
    # Who goes on waits for the lease of the stopped process, as any second run would.
    rescuer, code = rescuers.run(scene.job)
    assert code == 0
    ended = await scene.read()
    assert ended.row.epoch == left.row.epoch + 1
    victim.go_on()
    assert_refused(victim, scene)
    assert (await scene.read()).content == ended.content
    check_work(left, scene.ledger, session=scene.session_id, rescuer=rescuer)
    check_ending(ended, scene.ledger, await unharmed("relay"))


@pytest.mark.parametrize(
    "scene", ["relay", pytest.param("streamed", marks=pytest.mark.slow)], indirect=True
)
async def test_a_process_waiting_for_its_model_notices_a_lost_lease(
    scene: Scene, victims: Nursery, rescuers: Nursery, unharmed: Reference
) -> None:
    victim = victims.start(scene.job_with(lease_s=6, hang_at="*/1.3.m"))
    await until(lambda: bool(scene.ledger.lines("model", step="1.3.m")), "the model is asked")
    victim.stop()
    victim.wait_until_stopped()
    left = await scene.left_by_the_dead()
    assert left is not None
    victim.go_on()
    assert_refused(victim, scene)
    assert (await scene.read()).content == left.content
    rescuer, code = rescuers.run(scene.job)
    assert code == 0
    check_work(left, scene.ledger, session=scene.session_id, rescuer=rescuer)
    check_ending(await scene.read(), scene.ledger, await unharmed("relay"))
