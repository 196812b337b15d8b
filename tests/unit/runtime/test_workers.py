"""Workers share the sessions of a store."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from ekiden.core.agent import Agent, Team
from ekiden.core.errors import SessionBusy, StoreUnavailable
from ekiden.engine import Worker, submit
from ekiden.runtime import CodeContext, RunConfig, Runner
from ekiden.sessions import Session
from ekiden.storage.base import DocumentWrite, NewSession, SessionFilter, Store
from ekiden.storage.memory import MemoryStore
from ekiden.storage.sqlite import SqliteStore
from ekiden.storage.timers import TIMERS


@pytest.fixture(params=["memory", "sqlite"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    made: Store = (
        MemoryStore() if request.param == "memory" else SqliteStore(tmp_path / "ekiden.db")
    )
    await made.open()
    yield made
    await made.close()


def counting_team(seen: list[str]) -> Agent[Any]:
    async def code(ctx: CodeContext[Any]) -> str:
        seen.append(ctx.session_id)
        await asyncio.sleep(0)
        return ctx.text.upper()

    return Agent("code", run=code)


async def test_two_workers_do_every_session_once(store: Store) -> None:
    seen: list[str] = []
    team = counting_team(seen)
    for number in range(30):
        await submit(team, f"m{number}", session=Session(f"s{number}", store=store))
    workers = [Worker(store, team, concurrency=4) for _ in range(2)]
    await asyncio.gather(*(worker.run(until_idle=True) for worker in workers))
    assert sorted(seen) == sorted(f"s{number}" for number in range(30))
    assert sum(worker.finished for worker in workers) == 30
    page = await store.list(SessionFilter(outcome="done"), limit=100)
    assert len(page.sessions) == 30


async def test_an_idle_worker_takes_new_work_and_stops_on_request(store: Store) -> None:
    seen: list[str] = []
    team = counting_team(seen)
    worker = Worker(store, team)
    async with asyncio.TaskGroup() as group:
        group.create_task(worker.run())
        await submit(team, "hello", session=Session("s1", store=store))
        while not worker.finished:
            await store.wait_for_change(1.0)
            await asyncio.sleep(0)
        worker.stop()
    assert seen == ["s1"]


async def test_a_session_that_fails_does_not_stop_the_worker(store: Store) -> None:
    async def code(ctx: CodeContext[Any]) -> str:
        if ctx.text == "bad":
            raise RuntimeError("boom")
        return "fine"

    team = Agent("code", run=code)
    for number, text in enumerate(["bad", "good"]):
        await submit(team, text, session=Session(f"s{number}", store=store))
    await Worker(store, team).run(until_idle=True)
    outcomes = [(await store.get(f"s{number}")).outcome for number in range(2)]
    assert outcomes == ["failed", "done"]


async def test_a_message_for_a_busy_session_is_refused_where_configured(store: Store) -> None:
    team = counting_team([])
    await submit(team, "one", session=Session("s1", store=store))
    await store.claim("s1", owner="somebody", lease_s=30)
    with pytest.raises(SessionBusy):
        await submit(
            team,
            "two",
            session=Session("s1", store=store),
            run_config=RunConfig(on_busy="refuse"),
        )


async def test_a_submitted_message_can_be_resumed_without_a_worker(store: Store) -> None:
    team = counting_team([])
    session = Session("s1", store=store)
    await submit(team, "hello", session=session)
    assert (await Runner.resume(team, session)).final_output == "HELLO"


async def test_a_worker_skips_sessions_of_agents_outside_its_team(store: Store) -> None:
    other: list[str] = []
    mine = counting_team([])
    theirs = Agent("theirs", run=counting_team(other).run)
    await submit(theirs, "for them", session=Session("s1", store=store))
    await submit(mine, "for me", session=Session("s2", store=store))
    worker = Worker(store, mine)
    await worker.run(until_idle=True)
    assert worker.finished == 1
    assert (await store.get("s1")).status == "ready"
    await Worker(store, theirs).run(until_idle=True)
    assert other == ["s1"]


async def test_a_ready_session_without_work_is_marked_as_failed(store: Store) -> None:
    team = counting_team([])
    await store.create(NewSession(id="odd", agent="code", status="ready"))
    await Worker(store, team).run(until_idle=True)
    row = await store.get("odd")
    assert (row.status, row.outcome) == ("idle", "failed")
    last = (await store.events("odd"))[-1]
    assert last.type == "agent_error"
    assert "nothing to resume" in (last.error or "")


async def test_a_worker_until_idle_survives_a_brief_store_outage() -> None:
    class Blinking(MemoryStore):
        away = True

        async def claim_next(self, **options: Any) -> Any:
            if self.away:
                self.away = False
                raise StoreUnavailable("away")
            return await super().claim_next(**options)

    store = Blinking()
    team = counting_team([])
    await submit(team, "hello", session=Session("s1", store=store))
    worker = Worker(store, team)
    await worker.run(until_idle=True)
    assert worker.finished == 1


async def test_timers_run_while_all_worker_slots_are_taken() -> None:
    store, gate = MemoryStore(), asyncio.Event()

    async def asking(ctx: CodeContext[Any]) -> str:
        return (await ctx.request_approval("?", deadline_s=0.05, default="reject")).choice

    async def slow(ctx: CodeContext[Any]) -> str:
        await gate.wait()
        return "done"

    team = Team(Agent("asking", run=asking), Agent("slow", run=slow))
    await submit(team["asking"], "go", session=Session("s1", store=store))
    await submit(team["slow"], "go", session=Session("s2", store=store))
    worker = Worker(store, team, concurrency=1)
    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        group.create_task(worker.run(until_idle=True))
        while not (await store.get("s1")).wakes:
            await store.wait_for_change(0.1)
        assert (await store.get("s1")).status == "ready", "the only place is taken"
        gate.set()
    assert (await store.get("s1")).outcome == "done"


async def test_an_invalid_timer_does_not_stop_the_worker(
    caplog: pytest.LogCaptureFixture,
) -> None:
    store, seen = MemoryStore(), list[str]()
    await store.write_documents([DocumentWrite(collection=TIMERS, key="0", body=True)])
    team = counting_team(seen)
    await submit(team, "hello", session=Session("s1", store=store))
    await Worker(store, team).run(until_idle=True)
    assert seen == ["s1"]


@pytest.mark.parametrize("error", [ValueError("odd"), StoreUnavailable("away")])
async def test_an_error_while_running_timers_is_logged_and_retried(
    error: Exception, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    store, looks, again = MemoryStore(), list[int](), asyncio.Event()

    async def look(_: Store, __: float) -> float:
        looks.append(1)
        if len(looks) == 3:
            again.set()
        raise error

    monkeypatch.setattr("ekiden.engine.worker.handle_timers", look)
    monkeypatch.setattr("ekiden.engine.worker.TIMERS_S", 0.0)
    worker = Worker(store, counting_team([]))
    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        group.create_task(worker.run())
        await again.wait()
        worker.stop()
    assert "trying again" in caplog.text
