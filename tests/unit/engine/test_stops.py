"""Runs are stopped on request, wherever they are worked on."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from ekiden.core.agent import Agent, Team
from ekiden.core.errors import StoreUnavailable
from ekiden.engine import Worker, submit
from ekiden.engine.store_worker import Stops, StoreWorker
from ekiden.runtime import CodeContext, RunConfig, Runner
from ekiden.runtime.questions.cancel_question import STOPS, ask_to_stop, take_back
from ekiden.sessions import Session
from ekiden.storage.base import NewSession
from ekiden.storage.memory import MemoryStore
from tests.support.stubborn import Stubborn
from tests.support.until import until
from tests.unit.runtime.test_supervisor import supervisor, task


class Slow:
    """An agent that waits for a gate, and says when it began."""

    def __init__(self) -> None:
        self.begun, self.gate, self.ended = asyncio.Event(), asyncio.Event(), 0

        async def code(ctx: CodeContext[Any]) -> str:
            self.begun.set()
            await self.gate.wait()
            self.ended += 1
            return ctx.text

        self.team = Team(Agent("slow", run=code))


async def gone(store: MemoryStore) -> None:
    """Until all requests are seen to."""
    while await store.list_documents(STOPS):
        await store.wait_for_change(0.05)


async def test_a_worker_stops_a_run_on_request_of_another_process() -> None:
    store, slow = MemoryStore(), Slow()
    await submit(slow.team, "go", session=Session("s", store=store))
    worker = Worker(store, slow.team)
    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        group.create_task(worker.run())
        await slow.begun.wait()
        await ask_to_stop(store, "s", 1)
        await gone(store)
        row = await store.get("s")
        assert (row.status, row.outcome, row.owner) == ("idle", None, None)
        worker.stop()
    slow.gate.set()
    assert (await Runner.resume(slow.team, Session("s", store=store))).final_output == "go"


async def test_a_stop_request_for_the_run_of_a_dead_worker_is_handled() -> None:
    store, slow = MemoryStore(), Slow()
    await submit(slow.team, "go", session=Session("s", store=store))
    await ask_to_stop(store, "s", 1)
    station = StoreWorker(store, slow.team, serves=["slow"], config=RunConfig())
    claim, _ = await store.claim("s", owner="a dead worker", lease_s=30)
    await Stops(station).once()
    assert (await store.get("s")).status == "ready", "somebody may have it"
    await store.release(claim)
    await Stops(station).once()
    assert (await store.get("s")).status == "idle"
    assert not await store.list_documents(STOPS)


@pytest.mark.parametrize("session_id", ["s", "nobody"])
async def test_a_stop_request_for_a_finished_run_is_removed(session_id: str) -> None:
    store, slow = MemoryStore(), Slow()
    slow.gate.set()
    await Runner.run(slow.team, "one", session=Session("s", store=store))
    await submit(slow.team, "two", session=Session("s", store=store))
    await ask_to_stop(store, session_id, 1)
    station = StoreWorker(store, slow.team, serves=["slow"], config=RunConfig())
    await Stops(station).once()
    assert not await store.list_documents(STOPS)
    assert (await store.get("s")).status == "ready", "the second run is not meant"


async def test_a_stop_request_for_an_unknown_agent_is_left_to_other_workers() -> None:
    store, slow = MemoryStore(), Slow()
    await store.create(NewSession(id="s", agent="stranger", status="ready"))
    await ask_to_stop(store, "s", 0)
    await Stops(StoreWorker(store, slow.team, serves=["slow"], config=RunConfig())).once()
    assert len(await store.list_documents(STOPS)) == 1
    await take_back(store, "s")
    await take_back(store, "s")
    assert not await store.list_documents(STOPS)


async def test_a_stop_request_reaches_other_runners_in_the_process() -> None:
    store, slow = MemoryStore(), Slow()
    await submit(slow.team, "go", session=Session("s", store=store))
    await ask_to_stop(store, "s", 1)
    asked: list[str] = []

    async def also(session_id: str) -> bool:
        asked.append(session_id)
        return True

    station = StoreWorker(store, slow.team, serves=["slow"], config=RunConfig())
    await Stops(station, also=also).once()
    assert asked == ["s"]
    assert (await store.get("s")).status == "idle", "whoever had it had not begun"
    assert not await store.list_documents(STOPS)


async def test_a_timed_out_attempt_does_not_run_beside_the_next() -> None:
    store, begun, at_work = MemoryStore(), 0, set[int]()
    most = 0

    async def code(ctx: CodeContext[Any]) -> str:
        nonlocal begun, most
        begun += 1
        number = begun
        at_work.add(number)
        most = max(most, len(at_work))
        try:
            if number == 1:
                await asyncio.Event().wait()
            return "done"
        finally:
            at_work.discard(number)

    boss = supervisor(
        [Agent("slow", run=code)], task("slow"), retries=1, timeout_s=0.05, backoff_s=0.3
    )
    team = Team(boss)
    await submit(team, "go", session=Session("s", store=store))
    async with asyncio.timeout(60):
        await Worker(store, team).run(until_idle=True)
    assert (await store.get("s")).outcome == "done"
    assert (begun, most) == (2, 1)
    assert not await store.list_documents(STOPS)


@pytest.mark.parametrize("error", [StoreUnavailable("away"), ValueError("odd")])
async def test_a_failed_read_of_stop_requests_is_repeated(
    error: Exception, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    looks = 0

    async def requests(store: Any, *, after: str = "") -> list[Any]:
        nonlocal looks
        looks += 1
        raise error

    monkeypatch.setattr("ekiden.engine.store_worker.stop_requests", requests)
    monkeypatch.setattr("ekiden.engine.store_worker._LONGEST_S", 0.0)
    monkeypatch.setattr("ekiden.engine.store_worker._GAP_S", 0.0)
    slow = Slow()
    worker = Worker(MemoryStore(), slow.team)
    with caplog.at_level(logging.WARNING):
        async with asyncio.timeout(60), asyncio.TaskGroup() as group:
            group.create_task(worker.run())
            await until(lambda: looks >= 3)
            worker.stop()
    assert "stop requests could not be checked" in caplog.text


async def test_code_that_ignores_cancellation_blocks_no_other_request() -> None:
    store, slow, stubborn = MemoryStore(), Slow(), Stubborn("a")
    team = Team(stubborn.agent, slow.team["slow"])
    await submit(team["a"], "go", session=Session("a", store=store))
    await submit(team["slow"], "go", session=Session("b", store=store))
    worker = Worker(store, team)
    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        group.create_task(worker.run())
        await stubborn.begun.wait()
        await slow.begun.wait()
        await ask_to_stop(store, "a", 1)
        await ask_to_stop(store, "b", 1)
        while (await store.get("b")).status != "idle":
            await store.wait_for_change(0.05)
        assert not stubborn.gate.is_set()
        stubborn.gate.set()
        worker.stop()
    assert slow.ended == 0


async def test_cancel_returns_whether_the_code_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    store, stubborn = MemoryStore(), Stubborn()
    await submit(stubborn.agent, "go", session=Session("s", store=store))
    worker = Worker(store, stubborn.agent)
    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        group.create_task(worker.run())
        await stubborn.begun.wait()
        monkeypatch.setattr("ekiden.engine.store_worker._STOP_TIMEOUT_S", 0.01)
        assert not await worker.cancel("s")
        assert not await worker.cancel("s")
        assert stubborn.ignored == 1, "it may be tidying up"
        monkeypatch.setattr("ekiden.engine.store_worker._AGAIN_S", 0.0)
        assert not await worker.cancel("s")
        assert stubborn.ignored == 2
        stubborn.gate.set()
        worker.stop()
