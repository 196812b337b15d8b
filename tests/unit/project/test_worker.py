"""A worker process over all tenants of a store."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest

from ekiden.core.agent import Team
from ekiden.core.errors import StoreUnavailable, UnknownAgent, UserError
from ekiden.engine import submit
from ekiden.engine.registry import list_workers
from ekiden.project.project import load_project
from ekiden.project.run_tasks import RunOrder
from ekiden.project.service import Service
from ekiden.project.stores import find_tenants, tenant_store
from ekiden.project.worker import Workforce, WorkOrder
from ekiden.sessions import Session
from ekiden.storage.memory import MemoryStore
from tests.support.until import until

TEAM = """
import asyncio
from ekiden import Agent, Team

async def code(ctx):
    return ctx.text.upper()

team = Team(Agent("code", run=code), Agent("painter", run=code, runs_on={"gpu"}))
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    (tmp_path / "worked_team.py").write_text(TEAM)
    monkeypatch.syspath_prepend(tmp_path)
    return load_project(tmp_path, team="worked_team:team")


@pytest.fixture
def url(tmp_path: Path) -> str:
    return str(tmp_path / "desk.db")


async def fill(project: Any, url: str, tenant: str, session_id: str = "s") -> None:
    async with tenant_store(url, tenant) as store:
        team = project.team
        await submit(team["code"], "hello", session=Session(session_id, store=store))


async def outcome(url: str, tenant: str, session_id: str = "s") -> str | None:
    async with tenant_store(url, tenant) as store:
        return (await store.get(session_id)).outcome


async def test_all_tenants_are_served_by_one_process(project: Any, url: str) -> None:
    for tenant in ("default", "acme", "zeta"):
        await fill(project, url, tenant)
    workforce = Workforce(project, WorkOrder(store=url))
    told: list[list[str]] = []
    await workforce.run(until_idle=True, ready=lambda: told.append(workforce.tenants))
    assert told == [["acme", "default", "zeta"]]
    assert workforce.finished == 3
    assert [await outcome(url, each) for each in ("default", "acme", "zeta")] == ["done"] * 3


async def test_only_the_named_tenants_are_served(project: Any, url: str) -> None:
    for tenant in ("default", "acme", "zeta"):
        await fill(project, url, tenant)
    workforce = Workforce(project, WorkOrder(store=url, tenants=["acme", "to_come"]))
    await workforce.run(until_idle=True)
    assert workforce.finished == 1
    assert await outcome(url, "zeta") is None


async def test_a_new_tenant_is_served_and_a_removed_one_is_closed(
    project: Any, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ekiden.project.worker._LOOK_EVERY_S", 0.01)
    workforce = Workforce(project, WorkOrder(store=url))
    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        group.create_task(workforce.run())
        await until(lambda: workforce.tenants == ["default"])
        await fill(project, url, "acme")
        await until(lambda: workforce.finished == 1)
        (tmp_path / "desk.tenants" / "acme.db").unlink()
        await until(lambda: workforce.tenants == ["default"])
        assert workforce.running == 0
        workforce.stop()


async def test_a_tenant_whose_file_was_recreated_is_served(
    project: Any, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ekiden.project.worker._LOOK_EVERY_S", 0.01)
    await fill(project, url, "acme")
    workforce = Workforce(project, WorkOrder(store=url))
    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        group.create_task(workforce.run())
        await until(lambda: workforce.finished == 1)
        await fill(project, url, "other")
        await until(lambda: workforce.finished == 2)
        folder = tmp_path / "desk.tenants"
        async with tenant_store(str(tmp_path / "new.db"), "acme") as store:
            await submit(project.team["code"], "hi", session=Session("new", store=store))
        (tmp_path / "new.tenants" / "acme.db").replace(folder / "acme.db")
        for name in ("acme.db-wal", "acme.db-shm"):
            (folder / name).unlink(missing_ok=True)
        await until(lambda: workforce.finished == 3)
        workforce.stop()


async def test_a_tenant_that_cannot_be_opened_is_logged_and_others_are_served(
    project: Any, url: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    await fill(project, url, "acme")
    (tmp_path / "desk.tenants" / "broken.db").write_bytes(b"this is no database" * 100)
    workforce = Workforce(project, WorkOrder(store=url))
    await workforce.run(until_idle=True)
    assert (workforce.tenants, workforce.finished) == (["acme", "default"], 1)
    assert "store of tenant broken cannot be opened" in caplog.text


async def test_a_failed_look_for_tenants_is_repeated(
    project: Any, url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    looks = 0

    async def look(*_: Any) -> list[str]:
        nonlocal looks
        looks += 1
        if looks == 2:
            raise StoreUnavailable("away")
        if looks == 3:
            raise ValueError("odd")
        return []

    monkeypatch.setattr("ekiden.project.worker._LOOK_EVERY_S", 0.0)
    monkeypatch.setattr("ekiden.project.worker.find_tenants", look)
    workforce = Workforce(project, WorkOrder(store=url))
    with caplog.at_level(logging.WARNING):
        async with asyncio.timeout(60), asyncio.TaskGroup() as group:
            group.create_task(workforce.run())
            await until(lambda: looks >= 4)
            workforce.stop()
    assert caplog.text.count("tenants could not be listed") == 2


async def test_many_files_are_polled_instead_of_listened_to(
    project: Any, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ekiden.project.worker._FEW", 1)
    await fill(project, url, "acme")
    workforce = Workforce(project, WorkOrder(store=url))
    await workforce.run(until_idle=True)
    assert workforce.finished == 1


async def test_the_worker_is_listed_in_the_store_of_each_tenant(project: Any, url: str) -> None:
    await fill(project, url, "acme", "old")
    workforce = Workforce(project, WorkOrder(store=url, labels=["gpu"], concurrency=7))
    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        group.create_task(workforce.run())
        for tenant in ("default", "acme"):
            async with tenant_store(url, tenant) as store:
                while not (found := await list_workers(store)):
                    await store.wait_for_change(0.1)
                assert (found[0].tenant, found[0].labels) == (tenant, ("gpu",))
                assert (found[0].concurrency, found[0].needs) == (7, {})
        workforce.stop()
    async with tenant_store(url, "acme") as store:
        assert await list_workers(store) == []


@pytest.mark.parametrize(
    ("order", "error", "words"),
    [
        ({"store": "memory:"}, UserError, "`memory:` belongs to one process"),
        ({"agents": ["cod"]}, UnknownAgent, "did you mean 'code'"),
        ({"agents": ["painter"]}, UserError, "--label gpu"),
        ({"labels": ["a b"]}, UserError, "label"),
        ({"tenants": ["No Name"]}, UserError, "tenant cannot be called"),
    ],
)
def test_an_invalid_work_order_is_refused(
    project: Any, url: str, order: Any, error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        Workforce(project, WorkOrder(**{"store": url, **order}))


async def test_a_store_in_memory_has_no_tenants() -> None:
    assert await find_tenants("memory:", MemoryStore()) == []


async def test_a_server_leaves_agents_with_other_labels_to_workers(project: Any, url: str) -> None:
    async with Service(project, store=url) as service:
        desk = await service.tenant_service()
        await desk.runs.start(RunOrder(input="draw", session_id="p", to="painter"))
        await until(lambda: desk.runs.active == 0)
        assert (await desk.runs.read("p:1")).status == "queued"
        await desk.runs.start(RunOrder(input="hello", session_id="c", to="code"))
        assert (await desk.runs.wait("c:1", timeout_s=60)).output == "HELLO"
        async with Service(project, store=url, labels=["gpu"]) as other:
            assert (await other.tenant_service()).is_working
            assert (await desk.runs.wait("p:1", timeout_s=60)).output == "DRAW"


async def test_a_server_without_agents_to_run_only_accepts_runs(project: Any, url: str) -> None:
    project.team = Team(project.team["painter"])
    async with Service(project, store=url) as service:
        desk = await service.tenant_service()
        assert desk.is_working
        await desk.runs.start(RunOrder(input="draw", session_id="p"))
        await until(lambda: desk.runs.active == 0)
        assert (await desk.store.get("p")).status == "ready"
    with pytest.raises(UserError, match="labels of a server"):
        Service(project, store=url, labels=["a b"])


async def test_an_unknown_tenant_is_refused_with_the_known_ones(project: Any, url: str) -> None:
    await fill(project, url, "acme")
    with pytest.raises(UserError, match="no tenant nosuch: .*known: acme, default"):
        await Workforce(project, WorkOrder(store=url, tenants=["nosuch"])).run(until_idle=True)
    await Workforce(project, WorkOrder(store=url, tenants=["acme"])).run(until_idle=True)
