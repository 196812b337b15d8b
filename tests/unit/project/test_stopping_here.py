"""Runs of this process are stopped, and what is said of them is true."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from ekiden.core.agent import Agent, Team
from ekiden.core.events import Event
from ekiden.engine import Worker, submit
from ekiden.project import load_project
from ekiden.project.project import Project
from ekiden.project.run_tasks import RunOrder
from ekiden.project.service import TenantService
from ekiden.runtime import CodeContext
from ekiden.runtime.questions.cancel_question import STOPS
from ekiden.sessions import Session
from ekiden.storage.memory import MemoryStore
from tests.support.stubborn import Stubborn
from tests.support.until import until


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return load_project(tmp_path, home=tmp_path / "home")


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Short waits."""
    for name in ("_STOP_TIMEOUT_S", "_STOP_HERE_TIMEOUT_S"):
        monkeypatch.setattr(f"ekiden.engine.store_worker.{name}", 0.02)
    for name in ("_PATIENCE_S", "_LEAVING_S"):
        monkeypatch.setattr(f"ekiden.project.run_tasks.{name}", 0.02)
    monkeypatch.setattr("ekiden.project.service._LEAVING_S", 0.02)


class SlowToLoad(MemoryStore):
    """Reading a session's events takes until the reader goes away, the first time."""

    def __init__(self) -> None:
        super().__init__()
        self.reached = asyncio.Event()

    async def events(self, *args: Any, **kwargs: Any) -> Sequence[Event]:
        """Those of a session."""
        if not self.reached.is_set():
            self.reached.set()
            await asyncio.Event().wait()
        return await super().events(*args, **kwargs)


async def test_a_run_claimed_by_a_local_worker_is_stopped_before_it_starts(
    project: Project,
) -> None:
    async def code(ctx: CodeContext[Any]) -> str:
        await asyncio.Event().wait()
        return "done"

    project.team = Team(Agent("a", run=code))
    store = SlowToLoad()
    desk = TenantService(project, store, workers=10)
    await desk.open()
    async with asyncio.timeout(60):
        await submit(project.team, "go", session=Session("s", store=store))
        await store.reached.wait()
        assert (await desk.runs.cancel("s:1")).status == "stopped"
        row = await store.get("s")
        assert (row.status, row.owner, row.outcome) == ("idle", None, None)
        await desk.close(grace_s=0)


@pytest.mark.usefixtures("hasty")
@pytest.mark.parametrize("whose", ["caller", "worker"])
async def test_code_that_ignores_cancellation_is_reported_as_running(
    project: Project, whose: str
) -> None:
    stubborn, store = Stubborn(), MemoryStore()
    project.team = Team(stubborn.agent)
    desk = TenantService(project, store, workers=10)
    await desk.open()
    async with asyncio.timeout(60):
        if whose == "caller":
            await desk.runs.start(RunOrder(input="go", session_id="s"))
        else:
            await submit(project.team, "go", session=Session("s", store=store))
        await stubborn.begun.wait()
        assert (await desk.runs.cancel("s:1")).status == "running"
        assert len(await store.list_documents(STOPS)) == 1, "whoever has it next stops it"
        assert stubborn.ignored == 1
        stubborn.gate.set()
        while (await store.get("s")).owner is not None:
            await store.wait_for_change(0.05)
        assert (await desk.runs.read("s:1")).status in ("done", "stopped")
        await desk.close(grace_s=0)


@pytest.mark.usefixtures("hasty")
@pytest.mark.parametrize("whose", ["caller", "worker"])
async def test_closing_a_tenant_service_does_not_wait_for_hanging_code(
    project: Project, whose: str
) -> None:
    stubborn, store = Stubborn(), MemoryStore()
    project.team = Team(stubborn.agent)
    desk = TenantService(project, store, workers=10)
    await desk.open()
    async with asyncio.timeout(60):
        if whose == "caller":
            await desk.runs.start(RunOrder(input="go", session_id="s"))
        else:
            await submit(project.team, "go", session=Session("s", store=store))
        await stubborn.begun.wait()
        await desk.close(grace_s=0)
        assert stubborn.ignored
        stubborn.gate.set()
        await until(lambda: len(asyncio.all_tasks()) == 1)


@pytest.mark.usefixtures("hasty")
async def test_a_run_of_another_process_is_reported_as_stopped_after_it_stopped(
    project: Project,
) -> None:
    store = MemoryStore()

    async def code(ctx: CodeContext[Any]) -> str:
        return "done"

    others = Team(Agent("alien", run=code))
    project.team = Team(Agent("a", run=code))
    desk = TenantService(project, store, workers=0)
    await desk.open()
    await submit(others, "go", session=Session("s", store=store))
    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        assert (await desk.runs.cancel("s:1")).status == "queued"
        worker = Worker(store, others)
        assert len(await store.list_documents(STOPS)) == 1
        group.create_task(worker.run())
        while await store.list_documents(STOPS):
            await store.wait_for_change(0.05)
        worker.stop()
    await desk.close(grace_s=0)
