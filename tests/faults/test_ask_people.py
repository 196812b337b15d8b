"""A decision of a person is found by the process that continues, and used once."""

from __future__ import annotations

import signal

import pytest

from ekiden.inbox import Inbox, InboxQuery
from tests.faults.child import REFUSED
from tests.faults.choosing import marked
from tests.faults.databases import Database
from tests.faults.family_life import open_items
from tests.faults.family_scene import FamilyReference, FamilyScene
from tests.faults.ledger import Ledger
from tests.faults.processes import Nursery
from tests.faults.scenario import DATABASES

KILLED = -signal.SIGKILL
OPEN_TO_QUESTIONS = "approved"
"""The scenario: a word of a person for the one that is asked, then a yes for the one that asks."""


@pytest.fixture
def scene(database: Database, session_id: str, ledger: Ledger) -> FamilyScene:
    """A session whose agents ask people."""
    return FamilyScene(OPEN_TO_QUESTIONS, database, session_id, ledger)


class Life:
    """Processes that come and go, one after the other."""

    def __init__(self, scene: FamilyScene, nursery: Nursery) -> None:
        self.scene = scene
        self._nursery = nursery

    async def ask(self, *, fault: str = "", wanted: str = "A-42") -> int:
        """One that goes on with the session as far as possible; its exit code, and it is gone."""
        job = self.scene.job_with(task="ask", wanted=wanted)
        pid, code = self._nursery.run(job, fault=fault)
        await self.scene.database.expire_leases_of(pid)
        return code

    def decide(self) -> int:
        """One in which a person decides everything; how much that was."""
        pid, code = self._nursery.run(self.scene.job_with(task="decide"))
        assert code == 0
        [line] = self.scene.ledger.lines("result", pid=pid)
        return int(line["value"])

    async def asked_about(self) -> list[str | None]:
        """What people are asked now: a tool's arguments, or nothing of that kind."""
        async with self.scene.database.open() as store:
            return [item.arguments for item in await open_items(store, self.scene.job.session)]


@pytest.fixture
def life(scene: FamilyScene, victims: Nursery) -> Life:
    """Processes for the session."""
    return Life(scene, victims)


EACH_FAULT = [
    (database, fault)
    for database in DATABASES
    for fault in (
        "ask.question.before_commit:2",
        "ask.question.after_commit:2",
        "run.finish.before_commit:1",
        "run.finish.after_commit:1",
        "run.finish.before_commit:2",
        "run.finish.after_commit:2",
    )
]
QUICK_FAULTS = {
    ("sqlite", "ask.question.after_commit:2"),
    ("postgres", "run.finish.after_commit:2"),
}


@pytest.mark.parametrize(
    ("database", "fault"), marked(EACH_FAULT, QUICK_FAULTS), indirect=["database"]
)
async def test_a_wait_for_a_person_survives_every_crash_and_finds_the_answer(
    life: Life, fault: str, unharmed_family: FamilyReference
) -> None:
    assert await life.ask(fault=fault) == KILLED
    if not await life.asked_about():
        assert await life.ask() == 0
    assert await life.asked_about() == [None]
    assert life.decide() == 1, "while nobody runs"
    assert await life.ask() == 0
    assert await life.asked_about() == ['{"what":"A-42"}']
    assert life.decide() == 1
    assert await life.ask() == 0
    await life.scene.check_end(unharmed_family)


EACH_ANSWER = [
    (database, f"ask.answers.{when}_commit:{nth}")
    for database in DATABASES
    for when in ("before", "after")
    for nth in (1, 2)
]
QUICK_ANSWERS = {
    ("sqlite", "ask.answers.before_commit:1"),
    ("sqlite", "ask.answers.after_commit:2"),
}


@pytest.mark.parametrize(
    ("database", "fault"), marked(EACH_ANSWER, QUICK_ANSWERS), indirect=["database"]
)
async def test_an_answer_is_applied_once_despite_crashes(
    life: Life, fault: str, unharmed_family: FamilyReference
) -> None:
    assert await life.ask() == 0
    assert life.decide() == 1
    assert await life.ask(fault=fault) == KILLED
    assert await life.ask() == 0
    assert life.decide() == 1
    assert await life.ask(fault="ask.answers.before_commit:1") == KILLED
    assert await life.ask(fault="code.tool.after_call:1") == KILLED
    assert await life.ask() == 0
    await life.scene.check_end(unharmed_family)


async def test_of_two_processes_answering_at_once_one_decides(
    scene: FamilyScene, life: Life, victims: Nursery, rescuers: Nursery
) -> None:
    assert await life.ask() == 0
    names = ("anna", "佐藤")
    children = [
        nursery.start(scene.job_with(task="decide", by=name))
        for nursery, name in zip((victims, rescuers), names, strict=True)
    ]
    codes = [child.wait() for child in children]
    won = [line for line in scene.ledger.lines("result") if line["value"] == 1]
    assert len(won) == 1
    assert set(codes) <= {0, REFUSED}, "who is too late is told so, or finds nothing"
    [winner] = [
        name for name, child in zip(names, children, strict=True) if child.pid == won[0]["pid"]
    ]
    assert await life.ask() == 0
    family = await scene.find()
    assert family is not None
    answers = [
        event.details["answer"]["by"]
        for event in family.members["S.1"].events
        if event.type == "inbox" and event.details and "answer" in event.details
    ]
    assert answers == [winner]


EACH_DEATH = [
    (database, fault) for database in DATABASES for fault in ("", "code.tool.before_call:1")
]
QUICK_DEATHS = {("sqlite", ""), ("sqlite", "code.tool.before_call:1")}


@pytest.mark.parametrize(
    ("database", "fault"), marked(EACH_DEATH, QUICK_DEATHS), indirect=["database"]
)
async def test_an_approval_is_never_applied_to_other_arguments(life: Life, fault: str) -> None:
    ledger = life.scene.ledger
    assert await life.ask() == 0
    assert life.decide() == 1
    assert await life.ask() == 0
    assert await life.asked_about() == ['{"what":"A-42"}']
    assert life.decide() == 1
    if fault:  # The yes is on record, and the tool is about to run.
        assert await life.ask(fault=fault) == KILLED
    assert await life.ask(wanted="B-7") == 0
    assert ledger.effects() == ["draft"], "nobody said yes to that"
    assert await life.asked_about() == ['{"what":"B-7"}']
    assert life.decide() == 1
    assert await life.ask(wanted="B-7") == 0
    assert ledger.effects() == ["B-7", "draft"]
    async with life.scene.database.open() as store:
        page = await Inbox(store).list(InboxQuery(status="answered"), limit=1000)
        mine = [item.arguments for item in page.items if item.session_id == life.scene.job.session]
    assert sorted(map(str, mine)) == ['{"what":"A-42"}', '{"what":"B-7"}']
