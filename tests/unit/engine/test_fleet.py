"""Several stores, one worker: none of them starves another."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from random import Random
from typing import Any

import pytest

from ekiden.core.agent import Agent, Team
from ekiden.core.errors import StoreUnavailable
from ekiden.engine import submit
from ekiden.engine.fleet import Fleet
from ekiden.engine.store_worker import StoreWorker
from ekiden.runtime import CodeContext, RunConfig
from ekiden.sessions import Session
from ekiden.storage.base import NewSession
from ekiden.storage.memory import MemoryStore
from ekiden.testing.simulation.loop import SimulatedLoop
from tests.support.until import until


class Desk:
    """A tenant's store, and what was done there."""

    done: list[str]

    def __init__(self, name: str, done: list[str], store: MemoryStore | None = None) -> None:
        async def code(ctx: CodeContext[Any]) -> str:
            await asyncio.sleep(0)
            if ctx.text == "wait":
                self.begun.set()
                await self.gate.wait()
            done.append(name)
            return "done"

        self.begun, self.gate = asyncio.Event(), asyncio.Event()
        self.team = Team(Agent("code", run=code))
        self.store = store or MemoryStore()
        self.station = StoreWorker(
            self.store, self.team, serves=["code"], config=RunConfig(), name=name
        )

    async def fill(self, number: int, text: str = "go") -> None:
        for each in range(number):
            await submit(self.team, text, session=Session(f"s{each}", store=self.store))


async def test_a_full_store_does_not_starve_other_stores() -> None:
    done: list[str] = []
    tenant_services = [Desk("large", done), Desk("small", done), Desk("tiny", done)]
    fleet = Fleet(concurrency=6)
    for desk, number in zip(tenant_services, (300, 30, 3), strict=True):
        await desk.fill(number)
        fleet.add(desk.station)
    await fleet.run(until_idle=True)
    assert Counter(done) == {"large": 300, "small": 30, "tiny": 3}
    assert done.index("tiny") < 20
    half = max(place for place, name in enumerate(done) if name == "small")
    assert half < 100, "a third of the places are the small one's as long as it has work"
    assert fleet.finished == 333


async def test_a_single_store_uses_the_full_concurrency() -> None:
    desk = Desk("only", [])
    await desk.fill(5, "wait")
    fleet = Fleet(concurrency=5)
    fleet.add(desk.station)
    fleet.add(Desk("idle", []).station)
    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        group.create_task(fleet.run(until_idle=True))
        while fleet.running < 5:
            await desk.store.wait_for_change(0.1)
        desk.gate.set()
    assert desk.station.finished == 5


async def test_stores_are_added_and_removed_while_running() -> None:
    done: list[str] = []
    first, second = Desk("first", done), Desk("second", done)
    await second.fill(1)
    fleet = Fleet(concurrency=2)
    fleet.add(first.station)
    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        group.create_task(fleet.run())
        await asyncio.sleep(0)
        fleet.add(second.station)
        while not done:
            await second.store.wait_for_change(0.1)
        await first.fill(1, "wait")
        await first.begun.wait()
        await fleet.remove(first.station)
        await fleet.remove(first.station)
        fleet.stop()
    assert done == ["second"]
    assert fleet.store_workers == [second.station]
    row = await first.store.get("s0")
    assert (row.status, row.owner) == ("ready", None), "left for others at once"


@pytest.mark.parametrize("error", [StoreUnavailable("away"), ValueError("odd")])
async def test_a_failing_store_does_not_block_other_stores(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    class Away(MemoryStore):
        async def claim_next(self, **options: Any) -> Any:
            raise error

        async def wait_for_change(self, timeout_s: float, **options: Any) -> None:
            raise StoreUnavailable("away")

    done: list[str] = []
    away, well = Desk("away", done, Away()), Desk("well", done)
    await well.fill(3)
    fleet = Fleet(concurrency=2)
    fleet.add(away.station)
    fleet.add(well.station)
    with caplog.at_level(logging.WARNING):
        async with asyncio.timeout(60), asyncio.TaskGroup() as group:
            group.create_task(fleet.run())
            while len(done) < 3:
                await well.store.wait_for_change(0.1)
            fleet.stop()
    assert "trying again" in caplog.text


async def test_a_session_claimed_during_the_stop_is_released() -> None:
    class Slow(MemoryStore):
        async def claim_next(self, **options: Any) -> Any:
            claimed = await super().claim_next(**options)
            fleet.stop()
            return claimed

    desk = Desk("slow", [], Slow())
    await desk.fill(1)
    fleet = Fleet(concurrency=1)
    fleet.add(desk.station)
    await fleet.run()
    row = await desk.store.get("s0")
    assert (row.status, row.owner, desk.station.finished) == ("ready", None, 0)
    assert fleet.is_stopping


async def test_a_store_without_change_listening_is_polled() -> None:
    desk = Desk("quiet", [])
    await desk.fill(1)
    deaf = StoreWorker(desk.store, desk.team, serves=["code"], config=RunConfig(), listens=False)
    fleet = Fleet(concurrency=1)
    fleet.add(deaf)
    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        group.create_task(fleet.run())
        while not deaf.finished:
            await desk.store.wait_for_change(0.1)
        await submit(desk.team, "go", session=Session("later", store=desk.store))
        while deaf.finished < 2:
            await desk.store.wait_for_change(0.1)
        fleet.stop()


def test_an_idle_worker_polls_rarely() -> None:
    loop = SimulatedLoop(Random(0))  # Its time does not depend on the machine.
    looks = loop.run_until_complete(looks_at_changes_of_others(40, every_s=0.005))
    loop.close()
    assert looks < 20, "not at each of the changes that others make"


async def looks_at_changes_of_others(changes: int, *, every_s: float) -> int:
    """How often a worker tries to claim a session while others change the store."""

    class Counting(MemoryStore):
        looks = 0

        async def claim_next(self, **options: Any) -> Any:
            self.looks += 1
            return await super().claim_next(**options)

    store = Counting()
    desk = Desk("idle", [], store)
    fleet = Fleet(concurrency=100)
    fleet.add(desk.station)
    async with asyncio.TaskGroup() as group:
        group.create_task(fleet.run())
        for number in range(changes):
            await store.write_documents([])
            await submit(
                Agent("other", run=desk.team["code"].run),
                "not ours",
                session=Session(f"o{number}", store=store),
            )
            await asyncio.sleep(every_s)
        fleet.stop()
    return store.looks


async def test_removing_a_store_cancels_all_its_sessions_before_waiting() -> None:
    told = [asyncio.Event(), asyncio.Event()]
    begun = 0

    async def code(ctx: CodeContext[Any]) -> str:
        nonlocal begun
        begun += 1
        mine, other = told if ctx.text == "0" else reversed(told)
        try:
            await asyncio.Event().wait()
        finally:
            mine.set()
            await other.wait()
        return "never"

    team, store = Team(Agent("code", run=code)), MemoryStore()
    station = StoreWorker(store, team, serves=["code"], config=RunConfig())
    for text in ("0", "1"):
        await submit(team, text, session=Session(text, store=store))
    fleet = Fleet(concurrency=2)
    fleet.add(station)
    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        group.create_task(fleet.run())
        await until(lambda: begun == 2)
        await fleet.remove(station)
        fleet.stop()
    for text in ("0", "1"):
        row = await store.get(text)
        assert (row.status, row.owner) == ("ready", None)


async def test_a_session_that_becomes_ready_during_the_idle_check_is_run() -> None:
    class Late(MemoryStore):
        async def queue_depth(self, queue: str) -> int:
            if not done and not (await self.list()).sessions:
                await desk.fill(1)
            return 0

        async def wait_for_change(self, timeout_s: float, **options: Any) -> None:
            await asyncio.Event().wait()

    done: list[str] = []
    desk = Desk("late", done, Late())
    fleet = Fleet(concurrency=1)
    fleet.add(desk.station)
    async with asyncio.timeout(60):
        await fleet.run(until_idle=True)
    assert done == ["late"]


async def test_failing_change_notifications_do_not_stop_the_work(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class Deaf(MemoryStore):
        async def wait_for_change(self, timeout_s: float, **options: Any) -> None:
            raise ValueError("odd")

    monkeypatch.setattr("ekiden.engine.fleet.REST_S", 0.01)
    done: list[str] = []
    desk = Desk("deaf", done, Deaf())
    fleet = Fleet(concurrency=1)
    fleet.add(desk.station)
    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        group.create_task(fleet.run())
        await until(lambda: "changes could not be heard of" in caplog.text)
        await desk.fill(1)
        await until(lambda: done == ["deaf"])
        fleet.stop()


async def test_a_session_claimed_during_the_stop_that_cannot_be_released_is_not_run() -> None:
    class Unreleasing(MemoryStore):
        async def claim_next(self, **options: Any) -> Any:
            found = await super().claim_next(**options)
            fleet.stop()
            return found

        async def release(self, claim: Any) -> None:
            raise StoreUnavailable("away")

    done: list[str] = []
    store = Unreleasing()
    desk = Desk("a", done, store)
    await store.create(NewSession(id="s", agent="code", status="ready"))
    fleet = Fleet(concurrency=1)
    fleet.add(desk.station)
    async with asyncio.timeout(60):
        await fleet.run()
    row = await store.get("s")
    assert (row.status, row.outcome, done) == ("ready", None, [])
