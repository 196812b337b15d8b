"""`kill -9` of the asking or the answering process: nothing is lost, and nothing done twice."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from ekiden.bus import Bus
from ekiden.core.errors.messages import AgentUnavailableError
from ekiden.storage.base import MessageFilter
from tests.faults.bus_child import CLERK, Job, ask, news, question, settings, start
from tests.faults.databases import Database
from tests.faults.ledger import Ledger
from tests.faults.waiting import DEADLINE_S, until

VISIBILITY_S = 1.0


class Office:
    """The processes of one test."""

    def __init__(self, database: Database, ledger: Ledger) -> None:
        self.database = database
        self.ledger = ledger
        self.processes: list[subprocess.Popen[bytes]] = []

    def job(self, task: Any, *ids: str, **fields: Any) -> Job:
        """Something for a process to do."""
        return Job(
            task=task,
            store=self.database.url,
            folder=str(self.ledger.folder),
            ids=ids,
            **{"visibility_s": VISIBILITY_S, **fields},
        )

    def start(self, job: Job) -> subprocess.Popen[bytes]:
        """A process that does it, and does not outlive the test."""
        process = start(job)
        self.processes.append(process)
        return process

    async def server(self, **fields: Any) -> subprocess.Popen[bytes]:
        """A process that serves the clerk."""
        here = len(self.ledger.lines("here"))
        process = self.start(self.job("serve", **fields))
        await until(lambda: len(self.ledger.lines("here")) > here, "somebody serves")
        return process

    async def dismiss(self, process: subprocess.Popen[bytes]) -> None:
        """Let a process that serves come to its end."""
        (self.ledger.folder / "stop").touch()
        assert await asyncio.to_thread(process.wait, DEADLINE_S) == 0

    def has(self, kind: str, message_id: str) -> bool:
        """Whether this was noted of the message."""
        return bool(self.ledger.lines(kind, id=message_id))


@pytest.fixture
def office(empty_database: Database, ledger: Ledger) -> Iterator[Office]:
    """Where processes share a bus."""
    with _office(empty_database, ledger) as office:
        yield office


@contextmanager
def _office(database: Database, ledger: Ledger) -> Iterator[Office]:
    office = Office(database, ledger)
    try:
        yield office
    finally:
        for process in office.processes:
            process.kill()
            process.wait(DEADLINE_S)
        for output in office.ledger.folder.glob("output*"):
            print(output.read_text())  # Of a test that failed.


def kill(process: subprocess.Popen[bytes]) -> None:
    """`kill -9`."""
    process.kill()
    assert process.wait(DEADLINE_S) == -signal.SIGKILL


async def test_messages_of_a_killed_process_are_redelivered(office: Office) -> None:
    victim = await office.server(hangs=True)
    async with (
        office.database.open() as store,
        Bus(store, settings=settings(office.job("serve"))) as bus,
    ):
        asking = asyncio.create_task(ask(bus, "q1"))
        await bus.send(news("n1"))
        await until(lambda: office.has("got", "q1") and office.has("got", "n1"), "it is taken")
        survivor = await office.server()
        kill(victim)
        answer = await asking
        assert answer.payload == {"reply": "q1 is booked"}
        await office.dismiss(survivor)
        rows = await store.find_messages(MessageFilter(keys=["q1", "n1"]))
        assert [row.state for row in rows] == ["answered", "answered"]
    assert office.ledger.effects() == ["n1", "q1"]
    seen = [(line["id"], line["redelivered"]) for line in office.ledger.lines("got")]
    assert Counter(seen) == Counter([(each, flag) for each in ("q1", "n1") for flag in (0, 1)])


async def test_an_answer_of_a_process_that_slept_beyond_its_lease_does_not_count(
    office: Office,
) -> None:
    sleeper = await office.server(waits=True)
    asker = office.start(office.job("ask", "q1"))
    await until(lambda: office.has("got", "q1"), "it is taken")
    os.kill(sleeper.pid, signal.SIGSTOP)
    survivor = await office.server()
    assert await asyncio.to_thread(asker.wait, DEADLINE_S) == 0
    async with office.database.open() as store:
        answered = await store.find_messages(MessageFilter(keys=["q1"]))
        (office.ledger.folder / "answer").touch()
        os.kill(sleeper.pid, signal.SIGCONT)
        attempts = office.ledger.lines
        await until(lambda: bool(attempts("attempt", pid=sleeper.pid)), "it goes on")
        await office.dismiss(sleeper)
        await office.dismiss(survivor)
        assert await store.find_messages(MessageFilter(keys=["q1"])) == answered
    assert [row.state for row in answered] == ["answered"]
    assert len(office.ledger.lines("answer")) == 1
    assert office.ledger.effects() == ["q1"]


async def test_unfinished_messages_are_delivered_after_a_restart(
    office: Office,
) -> None:
    victim = await office.server(hangs=True)
    asker = office.start(office.job("ask", "q1"))
    await until(lambda: office.has("got", "q1"), "it is taken")
    kill(victim)
    successor = await office.server()
    assert await asyncio.to_thread(asker.wait, DEADLINE_S) == 0
    await office.dismiss(successor)
    [answer] = office.ledger.lines("answer")
    assert answer["value"] == {"reply": "q1 is booked"}
    assert office.ledger.effects() == ["q1"]


async def test_a_killed_asker_gets_the_answer_when_it_asks_again(office: Office) -> None:
    # On a busy machine a server that is there may not be heard of for a second.
    server = await office.server(visibility_s=30.0)
    ids = tuple(f"q{number}" for number in range(5))
    # It dies when its queries are stored.
    asker = office.start(office.job("ask", *ids, dies_at=-1, visibility_s=30.0))
    assert await asyncio.to_thread(asker.wait, DEADLINE_S) == -signal.SIGKILL
    again = office.start(office.job("ask", *ids, visibility_s=30.0))
    assert await asyncio.to_thread(again.wait, DEADLINE_S) == 0
    await office.dismiss(server)
    answers = {line["id"]: line["value"]["reply"] for line in office.ledger.lines("answer")}
    assert answers == {each: f"{each} is booked" for each in ids}
    assert office.ledger.effects() == sorted(ids)
    assert not any(line["redelivered"] for line in office.ledger.lines("got"))


async def test_an_answer_given_while_the_asker_was_dead_is_found(office: Office) -> None:
    async with office.database.open() as store:
        bus = Bus(store)
        go = asyncio.Event()

        async def handle(message: Any) -> Any:
            office.ledger.note("got", id=message.id, redelivered=message.redelivered)
            await go.wait()
            return {"reply": "at last"}

        async with bus, bus.serve(CLERK, handle):
            victim = office.start(office.job("ask", "q1"))
            await until(lambda: office.has("got", "q1"), "it is asked")
            kill(victim)
            go.set()
            while (await bus.message("q1")).state == "open":
                await store.wait_for_change(0.1)
        with pytest.raises(AgentUnavailableError):
            await Bus(store).query(question("q2"))
        async with bus, bus.serve(CLERK, handle):
            again = office.start(office.job("ask", "q1"))
            assert await asyncio.to_thread(again.wait, DEADLINE_S) == 0
    [answer] = office.ledger.lines("answer")
    assert answer["value"] == {"reply": "at last"}
    assert len(office.ledger.lines("got")) == 1


MOMENTS = [
    each if each == -3 else pytest.param(each, marks=pytest.mark.slow)
    for each in (*range(-8, 0), *range(1, 9))
]


@pytest.mark.parametrize("dies_at", MOMENTS)
async def test_a_service_killed_anywhere_leaves_each_effect_once(
    office: Office, dies_at: int
) -> None:
    ids = ("q1", "q2", "q3")
    async with office.database.open() as store, Bus(store) as bus:
        for number in range(3):
            await bus.send(news(f"n{number}"))
        victim = office.start(office.job("serve", dies_at=dies_at))
        asker = office.start(office.job("ask", *ids))
        survivor = await office.server()
        # A process that asks while no process serves gets an error at once, and asks again.
        while (code := await asyncio.to_thread(asker.wait, DEADLINE_S)) != 0:
            assert code == 1
            asker = office.start(office.job("ask", *ids))
        while (await bus.depths()).get(CLERK):
            await store.wait_for_change(0.1)
        await office.dismiss(survivor)
        assert victim.wait(DEADLINE_S) in (0, -signal.SIGKILL)
        states = {row.state for row in await store.find_messages()}
    assert states == {"answered"}
    assert office.ledger.effects() == sorted([*ids, "n0", "n1", "n2"])
    answers = {line["id"]: line["value"]["reply"] for line in office.ledger.lines("answer")}
    assert answers == {each: f"{each} is booked" for each in ids}
    first = Counter(line["id"] for line in office.ledger.lines("got", redelivered=False))
    assert set(first.values()) <= {1}
