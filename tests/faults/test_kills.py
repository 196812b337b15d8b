"""`kill -9` at every fault point: after a restart the run ends as if nothing had happened."""

from __future__ import annotations

import signal

import pytest

from tests.faults.conftest import Reference
from tests.faults.evidence import check_ending, check_work
from tests.faults.processes import Nursery
from tests.faults.scenarios import SCENARIOS
from tests.faults.scene import Scene

MOST_VISITS = 3
"""Later visits of a point are killed in the slow tests only."""


def kills(first: int = 1, last: int | None = None) -> list[tuple[str, str]]:
    """Each scenario with each visit, from the first-th to the last-th, of each of its points."""
    return [
        (name, f"{point}:{nth}")
        for name, scenario in SCENARIOS.items()
        for point, visits in scenario.visits.items()
        for nth in range(first, min(visits, last or visits) + 1)
    ]


@pytest.mark.parametrize(("scene", "fault"), kills(last=MOST_VISITS), indirect=["scene"])
async def test_a_killed_run_ends_as_if_it_had_not_been_killed(
    scene: Scene, fault: str, victims: Nursery, rescuers: Nursery, unharmed: Reference
) -> None:
    _, code = victims.run(scene.job, fault=fault)
    assert code == -signal.SIGKILL
    left = await scene.left_by_the_dead()
    rescuer, code = rescuers.run(scene.job)
    assert code == 0
    check_work(left, scene.ledger, session=scene.session_id, rescuer=rescuer)
    check_ending(await scene.read(), scene.ledger, await unharmed(scene.job.scenario))
