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
from ekiden.collaboration.ledger import EXECUTIONS
from ekiden.core.messages import agent_queue
from ekiden.storage.base import MessageFilter
from ekiden.storage.sqlite import SqliteStore
from tests.unit.collaboration.child import SETTINGS, Counting
from tests.unit.collaboration.offices import path

ROOT = Path(__file__).resolve().parents[3]
RACES = 6


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    async with SqliteStore(tmp_path / "work.db") as opened:
        yield opened


@pytest.fixture
def collaborations(store: SqliteStore) -> Collaborations:
    return Collaborations(Bus(store), settings=SETTINGS)


def start(where: Path, task: str, *ids: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.unit.collaboration.child", str(where), task, *ids],
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


async def race(where: Path, first: str, second: str, ids: list[str]) -> list[tuple[str, str]]:
    """What came of two moves in each collaboration, made by two processes at once."""
    children = [start(where, first, *ids), start(where, second, *ids)]
    one, other = await asyncio.to_thread(together, children)
    return [(one[which], other[which]) for which in ids]


async def test_of_an_acceptance_and_a_counter_one_counts(
    tmp_path: Path, collaborations: Collaborations
) -> None:
    ann, bob = collaborations.as_agent("ann"), collaborations.as_agent("bob")
    ids = []
    for _ in range(RACES):
        offer = await ann.propose("bob", "x")
        await bob.accept(offer.id, 1)
        ids.append(offer.id)
    results = await race(tmp_path / "work.db", "ann-accept", "bob-counter", ids)
    for which, (accepted, countered) in zip(ids, results, strict=True):
        assert [accepted, countered].count("made") == 1
        found = await collaborations.get(which)
        assert (found.agreed is not None) == (accepted == "made")
        assert len(found.messages) == 3


async def test_an_agreement_and_a_cancel_have_an_order(
    tmp_path: Path, collaborations: Collaborations, store: SqliteStore
) -> None:
    ann, bob = collaborations.as_agent("ann"), collaborations.as_agent("bob")
    ids = []
    for _ in range(RACES):
        offer = await ann.propose("bob", "x")
        await bob.accept(offer.id, 1)
        ids.append(offer.id)
    results = await race(tmp_path / "work.db", "ann-accept", "bob-cancel", ids)
    for which, (accepted, cancelled) in zip(ids, results, strict=True):
        found = await collaborations.get(which)
        assert (found.phase, cancelled) == ("cancelled", "made")
        assert accepted in ("made", "collaboration.phase")
        assert ("agreement" in path(found)) == (accepted == "made")
    assert await store.list_documents(EXECUTIONS) == []


async def test_the_same_call_is_awarded_once(
    tmp_path: Path, collaborations: Collaborations
) -> None:
    ids = []
    for _ in range(RACES):
        called = await collaborations.as_agent("ann").call(["x"], participants=["bob", "cy"])
        for name in ("bob", "cy"):
            await collaborations.as_agent(name).bid(called.id, 0.5)
        ids.append(called.id)
    results = await race(tmp_path / "work.db", "award-bob", "award-cy", ids)
    for which, (to_bob, to_cy) in zip(ids, results, strict=True):
        assert sorted([to_bob, to_cy]) == ["collaboration.phase", "made"]
        found = await collaborations.get(which)
        assert found.partner == ("bob" if to_bob == "made" else "cy")


async def test_one_agent_in_two_processes_answers_once(
    tmp_path: Path, collaborations: Collaborations
) -> None:
    ids = [
        (await collaborations.as_agent("ann").request_handoff("bob", "x")).id for _ in range(RACES)
    ]
    results = await race(tmp_path / "work.db", "bob-acknowledge", "bob-acknowledge", ids)
    for which, both in zip(ids, results, strict=True):
        assert sorted(both) == ["collaboration.phase", "made"]
        assert len((await collaborations.get(which)).messages) == 2


@pytest.mark.parametrize(("moment", "is_agreed"), [("before:1", False), ("after:1", True)])
async def test_a_move_is_whole_or_not_at_all(
    tmp_path: Path, collaborations: Collaborations, store: SqliteStore, moment: str, is_agreed: bool
) -> None:
    """The process is killed just before, or just after, the acknowledgement is stored."""
    asked = await collaborations.as_agent("ann").request_handoff("bob", "x")
    child = start(tmp_path / "work.db", f"bob-acknowledge@{moment}", asked.id)
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
    "killed", ["execute:before", "execute:after", "execute:never@after:1", "execute:never@before:2"]
)
async def test_what_a_killed_process_had_begun_is_finished_once(
    tmp_path: Path, collaborations: Collaborations, killed: str
) -> None:
    asked = await collaborations.as_agent("ann").request_handoff("bob", "x")
    await collaborations.as_agent("bob").acknowledge(asked.id)
    notes = tmp_path / "notes"
    child = start(tmp_path / "work.db", killed, str(notes))
    [told] = await asyncio.to_thread(together, [child])
    assert (child.returncode, told) == (-signal.SIGKILL, {})
    assert (await collaborations.get(asked.id)).phase == "execution"
    second = start(tmp_path / "work.db", "execute:never", str(notes))
    [told] = await asyncio.to_thread(together, [second])
    assert told == {asked.id: "completion"}
    assert notes.read_text() == f"{asked.id}\n"
    found = await collaborations.get(asked.id)
    assert (found.phase, found.attempts) == ("completion", 2)
    assert found.outcome is not None
    assert found.outcome.result == {"done": asked.id}
