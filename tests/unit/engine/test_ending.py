"""When a worker that ends by itself ends, and what it does beside its sessions."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from ekiden.core.agent import Agent, Team
from ekiden.core.errors import StoreUnavailable
from ekiden.engine import Worker, submit
from ekiden.engine.bus_server import CollaborationWorker
from ekiden.engine.worker import Housekeeping, Timekeeping
from ekiden.runtime import CodeContext, RunConfig
from ekiden.sessions import Session
from ekiden.sessions.session import Retention
from ekiden.storage.base import DocumentWrite
from ekiden.storage.memory import MemoryStore
from ekiden.storage.records import EXECUTIONS
from ekiden.storage.sqlite import SqliteStore
from ekiden.storage.timers import TIMERS, Timer, timer_write
from tests.unit.bus.asked import ask, open_waits
from tests.unit.runtime.test_supervisor import Desk, supervisor, task


async def test_a_worker_until_idle_waits_for_the_retry_of_a_session() -> None:
    store, desk = MemoryStore(), Desk()
    boss = supervisor(
        [desk.agent("a", RuntimeError("not now"), "done")], task("a"), retries=1, backoff_s=0.2
    )
    team = Team(boss)
    await submit(team, "go", session=Session("s", store=store))
    worker = Worker(store, team)
    async with asyncio.timeout(60):
        await worker.run(until_idle=True)
    assert ((await store.get("s")).outcome, desk["a"]) == ("done", 2)


async def test_a_timer_set_before_the_first_wait_is_handled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("ekiden.engine.worker.TIMERS_S", 0.02)
    monkeypatch.setattr("ekiden.engine.worker._LONGEST_S", 3600.0)
    store = MemoryStore()
    keeping = asyncio.create_task(Timekeeping(store).run())
    await asyncio.sleep(0)
    await store.write_documents([timer_write(Timer(due_us=1, kind="query", id="msg_1"))])
    await store.wait_for_change(0)
    async with asyncio.timeout(10):
        while await store.list_documents(TIMERS):
            await store.wait_for_change(10)
    keeping.cancel()


async def test_a_failed_look_for_pauses_is_repeated() -> None:
    class Blinking(MemoryStore):
        away = True

        async def queue_depth(self, queue: str) -> int:
            if self.away:
                self.away = False
                raise StoreUnavailable("away")
            return await super().queue_depth(queue)

    async with asyncio.timeout(60):
        await Worker(Blinking(), Desk().agent("a")).run(until_idle=True)


class Waited(SqliteStore):
    """Notes for how long it was to wait."""

    longest_s = 0.0

    async def wait_for_change(self, timeout_s: float, **options: Any) -> None:
        if "about" not in options:
            self.longest_s = max(self.longest_s, timeout_s)
        await super().wait_for_change(timeout_s, **options)


async def test_a_session_of_a_dead_worker_is_looked_for_every_second(tmp_path: Path) -> None:
    store = Waited(tmp_path / "s.db")
    team = Team(Desk().agent("a"))
    await submit(team, "go", session=Session("s", store=store))
    await store.claim("s", owner="a dead worker", lease_s=0.3)
    worker = Worker(store, team)
    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        group.create_task(worker.run())
        while not worker.finished:
            await store.wait_for_change(0.05)
        worker.stop()
    await store.close()
    assert 0 < store.longest_s <= 1


async def test_a_deadlock_whose_last_process_died_is_broken() -> None:
    store = MemoryStore()
    await ask(store, "a>b", "b>a")
    keeping = Housekeeping(store, Retention())
    await keeping.once()
    assert len(await open_waits(store)) == 1
    await ask(store, "c>d", "d>c")
    await Housekeeping(store, Retention()).once()
    assert len(await open_waits(store)) == 3, "of all processes one looks, every twenty seconds"


@pytest.mark.parametrize("error", [StoreUnavailable("away"), ValueError("odd")])
async def test_a_failing_look_for_agreements_is_repeated(
    error: Exception, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    looks, again = 0, asyncio.Event()

    async def resume(self: Any) -> None:
        nonlocal looks
        looks += 1
        if looks == 2:
            again.set()
        raise error

    monkeypatch.setattr("ekiden.collaboration.Collaborations.resume", resume)
    monkeypatch.setattr("ekiden.engine.bus_server._EVERY_S", 0.0)

    async def echo(ctx: CodeContext[Any]) -> str:
        return ctx.text

    store = MemoryStore()
    await store.write_documents([DocumentWrite(collection=EXECUTIONS, key="c", body={})])
    task = asyncio.create_task(
        CollaborationWorker(store, Team(Agent("a", run=echo)), RunConfig()).run()
    )
    async with asyncio.timeout(60):
        await again.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert "trying again" in caplog.text
