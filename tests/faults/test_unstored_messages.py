"""A run that is killed before its message is stored leaves nothing, and nothing half."""

from __future__ import annotations

import signal

import pytest

from ekiden.core.errors import UserError
from ekiden.runtime import Runner
from ekiden.sessions import Session
from tests.faults.conftest import Reference
from tests.faults.evidence import check_ending
from tests.faults.processes import Nursery
from tests.faults.scenarios import SCENARIOS
from tests.faults.scene import Scene
from tests.faults.world import World


@pytest.mark.parametrize(
    "scene",
    [name if name == "relay" else pytest.param(name, marks=pytest.mark.slow) for name in SCENARIOS],
    indirect=True,
)
async def test_a_session_killed_before_its_first_commit_is_absent_or_empty(
    scene: Scene, victims: Nursery
) -> None:
    _, code = victims.run(scene.job, fault="run.begin.before_commit")
    assert code == -signal.SIGKILL
    left = await scene.find()
    if left is not None:
        row = left.row
        assert (row.status, row.outcome, row.agent) == ("idle", None, scene.entry)
        assert (row.seq, row.cursor, row.variables) == (0, {}, {})
        assert (list(left.events), dict(left.steps)) == ([], {})
    assert scene.ledger.lines("model") == []
    assert scene.ledger.effects() == []


@pytest.mark.parametrize("scene", ["relay"], indirect=True)
async def test_an_unstored_message_leaves_nothing_to_resume_and_can_be_sent_again(
    scene: Scene, victims: Nursery, rescuers: Nursery, unharmed: Reference
) -> None:
    victims.run(scene.job, fault="run.begin.before_commit")
    await scene.left_by_the_dead()
    async with scene.database.open() as store:
        team = SCENARIOS["relay"].team(World(scene.ledger.folder))
        with pytest.raises(UserError, match="nothing to resume"):
            await Runner.resume(team, Session(scene.session_id, store=store))
    _, code = rescuers.run(scene.job)
    assert code == 0
    check_ending(await scene.read(), scene.ledger, await unharmed("relay"))


@pytest.mark.parametrize("scene", ["filtered"], indirect=True)
async def test_an_unstored_second_message_leaves_the_first_run_unchanged(
    scene: Scene, victims: Nursery, rescuers: Nursery, unharmed: Reference
) -> None:
    _, code = victims.run(scene.job, fault="run.begin.before_commit:2")
    assert code == -signal.SIGKILL
    left = await scene.left_by_the_dead()
    assert left is not None
    assert left.row.outcome == "done"
    assert scene.ledger.effects() == ["A-42"]
    _, code = rescuers.run(scene.job)
    assert code == 0
    check_ending(await scene.read(), scene.ledger, await unharmed("filtered"))
