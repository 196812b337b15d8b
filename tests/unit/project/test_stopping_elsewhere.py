"""Runs that another process has are stopped from here."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from ekiden.engine import Worker
from ekiden.project import load_project
from ekiden.project.project import Project
from ekiden.project.run_tasks import RunOrder
from ekiden.project.service import TenantService
from ekiden.project.stores import tenant_store
from ekiden.runtime import RunConfig
from ekiden.runtime.questions.cancel_question import STOPS, ask_to_stop
from ekiden.storage.base import Store
from tests.support.relay_team import relay_team
from tests.support.until import until


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.setenv("RELAY_FOLDER", str(tmp_path))
    project = load_project(tmp_path, home=tmp_path / "home")
    project.team = relay_team()
    return project


@asynccontextmanager
async def opened(project: Project, tmp_path: Path, *, workers: int) -> AsyncIterator[TenantService]:
    """A desk on the file, as a process of its own would have it."""
    desk = TenantService(project, tenant_store(str(tmp_path / "s.db"), "default"), workers=workers)
    await desk.open()
    try:
        yield desk
    finally:
        await desk.close(grace_s=0)


@pytest.fixture
async def door(project: Project, tmp_path: Path) -> AsyncIterator[TenantService]:
    async with opened(project, tmp_path, workers=0) as desk:
        yield desk


async def taken(store: Store, session_id: str = "a") -> None:
    """Until a process has the session."""
    while (await store.get(session_id)).owner is None:
        await store.wait_for_change(0.1)


async def test_a_worker_in_another_process_stops_and_the_run_can_be_resumed(
    door: TenantService, project: Project, tmp_path: Path
) -> None:
    await door.runs.start(RunOrder(input="hold:go", session_id="a"))
    async with tenant_store(str(tmp_path / "s.db"), "default") as store:
        worker = Worker(store, project.team, run_config=door.config)
        async with asyncio.timeout(60), asyncio.TaskGroup() as group:
            group.create_task(worker.run())
            await taken(door.store)
            assert (await door.runs.cancel("a:1")).status == "stopped"
            assert not await door.store.list_documents(STOPS)
            assert (await door.runs.cancel("a:1")).status == "stopped"
            (tmp_path / "go").touch()
            await door.runs.resume("a")
            assert (await door.runs.wait("a:1", timeout_s=60)).status == "done"
            worker.stop()


async def test_another_server_stops_a_run_of_its_own_caller(
    door: TenantService, project: Project, tmp_path: Path
) -> None:
    async with asyncio.timeout(60), opened(project, tmp_path, workers=10) as other:
        await other.runs.start(RunOrder(input="hold:never", session_id="a"))
        await taken(door.store)
        assert (await door.runs.cancel("a:1")).status == "stopped"
        await until(lambda: other.runs.active == 0)


async def test_a_stop_request_stays_until_a_worker_handles_it(
    door: TenantService, project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ekiden.project.run_tasks._PATIENCE_S", 0.05)
    await door.runs.start(RunOrder(input="hold:never", session_id="a"))
    claim, _ = await door.store.claim("a", owner="one that hangs", lease_s=60)
    assert (await door.runs.cancel("a:1")).status == "running"
    assert len(await door.store.list_documents(STOPS)) == 1
    await door.store.release(claim)
    async with tenant_store(str(tmp_path / "s.db"), "default") as store:
        worker = Worker(store, project.team, run_config=RunConfig())
        async with asyncio.timeout(60), asyncio.TaskGroup() as group:
            group.create_task(worker.run())
            while await store.list_documents(STOPS):
                await store.wait_for_change(0.1)
            worker.stop()
    assert (await door.runs.read("a:1")).status == "stopped"


async def test_a_run_whose_owner_dies_is_stopped_by_the_requester(
    door: TenantService,
) -> None:
    await door.runs.start(RunOrder(input="hold:never", session_id="a"))
    claim, _ = await door.store.claim("a", owner="one that dies", lease_s=60)
    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        cancelling = group.create_task(door.runs.cancel("a:1"))
        while not await door.store.list_documents(STOPS):
            await door.store.wait_for_change(0.1)
        await door.store.release(claim)
    assert cancelling.result().status == "stopped"
    assert not await door.store.list_documents(STOPS)


async def test_an_old_stop_request_does_not_stop_a_resumed_run(
    door: TenantService, tmp_path: Path
) -> None:
    (tmp_path / "go").touch()
    await door.runs.start(RunOrder(input="hold:go", session_id="a"))
    assert (await door.runs.cancel("a:1")).status == "stopped"
    await ask_to_stop(door.store, "a", 1)
    await door.runs.resume("a")
    assert not await door.store.list_documents(STOPS)
