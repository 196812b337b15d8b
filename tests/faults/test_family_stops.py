"""A process that is stopped beyond its leases, while agents ask each other, people, or have a plan,
and is then woken, changes nothing."""

from __future__ import annotations

import pytest

from tests.faults.child import REFUSED
from tests.faults.choosing import marked
from tests.faults.databases import Database
from tests.faults.family import Family
from tests.faults.family_scene import FamilyReference, FamilyScene
from tests.faults.ledger import Ledger
from tests.faults.processes import Nursery
from tests.faults.scenario import DATABASES

_POINTS = {
    "planned": (
        "plan.decomposed.before_commit:1",
        "plan.result.before_commit:3",
        "plan.answer.before_commit:1",
        "ask.question.before_commit:4",
        "ask.answers.before_commit:5",
        "code.tool.after_call:6",
        "run.finish.before_commit:7",
    ),
    "approved": (
        "ask.question.before_commit:1",
        "ask.question.before_commit:2",
        "ask.question.before_commit:3",
        "ask.answers.before_commit:1",
        "ask.answers.before_commit:3",
        "run.finish.before_commit:2",
    ),
    "asked": (
        "ask.question.before_commit:2",
        "ask.answers.before_commit:2",
        "turn.tools.before_commit:1",
        "run.finish.before_commit:3",
    ),
    "compared": (
        "ask.question.before_commit:2",
        "ask.answers.before_commit:1",
        "turn.tools.after_remember:1",
        "run.finish.before_commit:2",
    ),
}
"""Before questions to agents and people, answers, plans and their results are stored."""
STOPS = [
    (database, name, f"{point}:stop")
    for database in DATABASES
    for name, points in _POINTS.items()
    for point in points
    # There two write side by side: who stops may have SQLite's lock, and nobody can take over.
    if (database, name) != ("sqlite", "compared")
]
QUICK = {
    *(("sqlite", name, f"{points[0]}:stop") for name, points in _POINTS.items()),
    ("postgres", "planned", f"{_POINTS['planned'][1]}:stop"),
}


@pytest.fixture
def scene(
    request: pytest.FixtureRequest, database: Database, session_id: str, ledger: Ledger
) -> FamilyScene:
    """A session of the scenario that the test names as its parameter."""
    return FamilyScene(request.param, database, session_id, ledger)


def content(family: Family | None) -> dict[str, object]:
    """A value that changes if and only if a process writes to one of the sessions."""
    assert family is not None
    return {name: record.content for name, record in family.members.items()}


@pytest.mark.parametrize(
    ("database", "scene", "fault"), marked(STOPS, QUICK), indirect=["database", "scene"]
)
async def test_a_process_that_wakes_after_a_takeover_changes_nothing(
    scene: FamilyScene,
    fault: str,
    victims: Nursery,
    rescuers: Nursery,
    unharmed_family: FamilyReference,
) -> None:
    victim = victims.start(scene.job, fault=fault)
    victim.wait_until_stopped()
    left = await scene.left_by(victim.pid)
    rescuer, code = rescuers.run(scene.job)
    assert code == 0
    await scene.check_work(left, rescuer)
    ending = content(await scene.find())
    victim.go_on()
    # One who was refused may still be told what others have made of it.
    assert victim.wait() in (0, REFUSED)
    for error in scene.ledger.lines("error", pid=victim.pid):
        assert error["code"] == "session.lease_lost", error
    assert content(await scene.find()) == ending
    await scene.check_end(unharmed_family)
