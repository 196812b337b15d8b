"""Several processes on one file: of two moves at once one counts, and none is lost to a kill."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ekiden.bus import Bus
from ekiden.collaboration import Collaborations
from ekiden.core.conversation.messages import agent_queue
from ekiden.storage.base import MessageFilter
from ekiden.storage.records import EXECUTIONS
from ekiden.storage.sqlite import SqliteStore
from tests.support.forked import ForkedPopen
from tests.unit.collaboration.child import SETTINGS, Counting
from tests.unit.collaboration.offices import path

ROOT = Path(__file__).resolve().parents[3]
ROUNDS = 6


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    async with SqliteStore(tmp_path / "work.db") as opened:
        yield opened


@pytest.fixture
def collaborations(store: SqliteStore) -> Collaborations:
    return Collaborations(Bus(store), settings=SETTINGS)


def start(where: Path, *arguments: str, moment: str = "never:0") -> subprocess.Popen[str]:
    return ForkedPopen(
        [sys.executable, "-m", "tests.unit.collaboration.child", str(where), moment, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, sys.path)])},
    )


def together(children: list[subprocess.Popen[str]]) -> list[dict[str, str]]:
    """Let them begin at the same time; by collaboration, what came of it."""
    for child in children:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
    for child in children:
        assert child.stdin is not None
        child.stdin.write("\n")
        child.stdin.flush()
    told = []
    for child in children:
        out, _ = child.communicate(timeout=60)
        told.append(dict(line.split(" ", 1) for line in out.splitlines()))
    return told


class Races:
    """Pairs of moves that two processes make at once, each in its own collaboration."""

    def __init__(self) -> None:
        self.ids: dict[str, list[str]] = {}
        self.moves: tuple[list[str], list[str]] = ([], [])

    def add(self, race: str, which: str, first: str, second: str) -> None:
        self.ids.setdefault(race, []).append(which)
        self.moves[0].append(f"{first}:{which}")
        self.moves[1].append(f"{second}:{which}")

    async def run(self, where: Path) -> dict[str, tuple[str, str]]:
        children = [start(where, "act", *moves) for moves in self.moves]
        one, other = await asyncio.to_thread(together, children)
        return {which: (one[which], other[which]) for which in one}


async def test_of_two_moves_by_two_processes_one_wins(
    tmp_path: Path, collaborations: Collaborations, store: SqliteStore
) -> None:
    ann, bob, cy = map(collaborations.as_agent, ("ann", "bob", "cy"))
    races = Races()
    for _ in range(ROUNDS):
        for race, other in (("counter", "bob-counter"), ("cancel", "bob-cancel")):
            offer = await ann.propose("bob", "x")
            await bob.accept(offer.id, 1)
            races.add(race, offer.id, "ann-accept", other)
        called = await ann.call(["x"], participants=["bob", "cy"])
        await bob.bid(called.id, 0.5)
        await cy.bid(called.id, 0.5)
        races.add("award", called.id, "award-bob", "award-cy")
        asked = await ann.request_handoff("bob", "x")
        races.add("twice", asked.id, "bob-acknowledge", "bob-acknowledge")

    told = await races.run(tmp_path / "work.db")

    for which in races.ids["counter"]:
        accepted, countered = told[which]
        found = await collaborations.get(which)
        assert [accepted, countered].count("made") == 1
        assert (found.agreed is not None) == (accepted == "made")
        assert len(found.messages) == 3
    for which in races.ids["cancel"]:
        accepted, cancelled = told[which]
        found = await collaborations.get(which)
        assert (found.phase, cancelled) == ("cancelled", "made")
        assert accepted in ("made", "collaboration.phase")
        assert ("agreement" in path(found)) == (accepted == "made")
        assert await store.get_document(EXECUTIONS, which) is None
    for which in races.ids["award"]:
        assert sorted(told[which]) == ["collaboration.phase", "made"]
        found = await collaborations.get(which)
        assert found.partner == ("bob" if told[which][0] == "made" else "cy")
    for which in races.ids["twice"]:
        assert sorted(told[which]) == ["collaboration.phase", "made"]
        assert len((await collaborations.get(which)).messages) == 2


@pytest.mark.parametrize(("moment", "is_agreed"), [("before:1", False), ("after:1", True)])
async def test_a_move_interrupted_by_a_kill_is_stored_completely_or_not_at_all(
    tmp_path: Path, collaborations: Collaborations, store: SqliteStore, moment: str, is_agreed: bool
) -> None:
    """The process is killed just before, or just after, the acknowledgement is stored."""
    asked = await collaborations.as_agent("ann").request_handoff("bob", "x")
    move = f"bob-acknowledge:{asked.id}"
    child = start(tmp_path / "work.db", "act", move, moment=moment)
    [told] = await asyncio.to_thread(together, [child])
    assert (child.returncode, told) == (-signal.SIGKILL, {})
    found = await collaborations.get(asked.id)
    assert (found.agreed is not None) == is_agreed
    mail = await store.find_messages(MessageFilter(queue=agent_queue("ann")))
    assert len(mail) == is_agreed
    assert len((await store.feed()).events) == 1 + is_agreed
    assert len(await store.list_documents(EXECUTIONS)) == is_agreed
    notes = tmp_path / "notes"
    executing = Collaborations(Bus(store), executor=Counting(notes), settings=SETTINGS)
    assert len(await executing.resume()) == is_agreed
    if not is_agreed:
        await collaborations.as_agent("bob").acknowledge(asked.id)
        assert len(await executing.resume()) == 1
    assert notes.read_text() == f"{asked.id}\n"


@pytest.mark.parametrize(
    ("executor", "moment"),
    [
        ("before", "never:0"),
        ("after", "never:0"),
        pytest.param("never", "after:1", marks=pytest.mark.slow),
        pytest.param("never", "before:2", marks=pytest.mark.slow),
    ],
)
async def test_an_execution_of_a_killed_process_is_finished_once(
    tmp_path: Path, collaborations: Collaborations, store: SqliteStore, executor: str, moment: str
) -> None:
    asked = await collaborations.as_agent("ann").request_handoff("bob", "x")
    await collaborations.as_agent("bob").acknowledge(asked.id)
    notes = tmp_path / "notes"
    child = start(tmp_path / "work.db", "execute", executor, str(notes), moment=moment)
    [told] = await asyncio.to_thread(together, [child])
    assert (child.returncode, told) == (-signal.SIGKILL, {})
    assert (await collaborations.get(asked.id)).phase == "execution"
    second = Collaborations(Bus(store), executor=Counting(notes), settings=SETTINGS)
    while not (ended := await second.resume()):
        await store.wait_for_change(SETTINGS.lease_s / 5)
    assert [each.id for each in ended] == [asked.id]
    assert notes.read_text() == f"{asked.id}\n"
    found = await collaborations.get(asked.id)
    assert (found.phase, found.attempts) == ("completion", 2)
    assert found.outcome is not None
    assert found.outcome.result == {"done": asked.id}
