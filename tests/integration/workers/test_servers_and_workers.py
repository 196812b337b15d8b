"""A server that only is a door, and workers in other processes, on one PostgreSQL database."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from ekiden.engine import submit
from ekiden.engine.registry import list_workers
from ekiden.project.stores import tenant_store
from ekiden.sessions import Session
from ekiden.storage.base import SessionFilter, Store
from ekiden.storage.postgres import PostgresStore
from ekiden.storage.postgres.address import parse_address
from tests.support.relay_team import team
from tests.support.worker_processes import Site, client_of, site


@pytest.fixture
def at(tmp_path: Path, postgres_url: str) -> Iterator[Site]:
    with site(tmp_path, postgres_url) as made:
        yield made


def run(api: httpx2.Client, run_id: str, wait_s: float = 20) -> Any:
    return api.get(f"/runs/{run_id}", params={"wait_s": wait_s}).json()


def until(api: httpx2.Client, run_id: str, status: str) -> Any:
    """The run once it stands like that."""
    deadline = time.monotonic() + 60
    while (record := run(api, run_id, 0))["status"] != status:
        assert time.monotonic() < deadline, record
    return record


def test_a_worker_runs_messages_received_by_a_server(at: Site, tmp_path: Path) -> None:
    door, worker = at.server("--workers", "0"), at.worker()
    with client_of(door) as api:
        assert worker.told["agents"] == ["desk", "router-agent", "triage"]
        shown = [each["engine"] for each in api.get("/workers").json()["workers"]]
        assert shown == ["worker"]

        body = {"input": "hello", "session_id": "a", "stream": True}
        with api.stream("POST", "/runs", json=body) as response:
            lines = list(response.iter_lines())
        assert "event: end" in lines
        assert run(api, "a:1", 0)["output"] == "you said: hello"

        asked = api.post("/runs", json={"input": "please refund it", "session_id": "b"}).json()
        [question] = asked["questions"]
        api.post(f"/inbox/{question}/answer", json={"choice": "approve"})
        assert run(api, "b:1")["output"] == "1042 is paid back"
        assert (tmp_path / "refunds.log").read_text() == "1042\n"

        api.post("/runs", json={"input": "hold:go", "session_id": "c", "background": True})
        until(api, "c:1", "running")
        stopped = api.post("/runs/c:1/cancel").json()
        assert stopped["status"] == "stopped"
        assert api.get("/sessions/c").json()["status"] == "idle"
        (tmp_path / "go").touch()
        assert api.post("/sessions/c/resume", json={}).status_code in (200, 202)
        assert run(api, "c:1")["output"] == "you said: hold:go"
    assert worker.end() == 0
    assert worker.line()["finished"] == 4


@pytest.mark.slow
async def test_one_worker_serves_the_tenants_of_a_database_fairly(
    at: Site, postgres_url: str
) -> None:
    """Sessions of the small tenant do not wait for those of the large one."""
    stores = {name: tenant_store(postgres_url, name) for name in ("default", "large", "small")}
    for name, number in (("large", 60), ("small", 6)):
        await fill(stores[name], number)
    await stores["default"].open()
    worker = at.worker("--concurrency", "4")
    assert worker.told["tenants"] == ["default", "large", "small"]
    assert await done(stores["small"], 6)
    assert len((await stores["large"].list(SessionFilter(outcome="done"), limit=100)).sessions) < 40
    assert await done(stores["large"], 60)
    stores["late"] = tenant_store(postgres_url, "late")
    await fill(stores["late"], 2)
    assert await done(stores["late"], 2), "a tenant that came while it worked"
    assert worker.end() == 0
    for store in stores.values():
        await store.close()
    await drop(postgres_url, ["large", "small", "late"])


@pytest.mark.slow
async def test_a_killed_worker_is_replaced_when_its_lease_expires(
    at: Site, postgres_store: PostgresStore, tmp_path: Path
) -> None:
    await submit(team, "hello hold:go", session=Session("s", store=postgres_store))
    first = at.worker("--lease", "1")
    while (await postgres_store.get("s")).owner is None:
        await postgres_store.wait_for_change(1)
    second = at.worker("--lease", "1")
    assert second.told["owner"] != first.told["owner"]
    first.end(signal.SIGKILL)
    (tmp_path / "go").touch()
    assert await done(postgres_store, 1)
    listed = await list_workers(postgres_store)
    assert first.told["owner"] in [each.owner for each in listed], "it had no time to leave"


async def fill(store: Store, number: int) -> None:
    await store.open()
    for each in range(number):
        await submit(team, "hello", session=Session(f"s{each}", store=store))


async def done(store: Store, number: int) -> bool:
    """Whether so many sessions come to their end."""
    deadline = time.monotonic() + 60
    while len((await store.list(SessionFilter(outcome="done"), limit=100)).sessions) < number:
        if time.monotonic() > deadline:
            return False
        await store.wait_for_change(0.5)
    return True


async def drop(url: str, tenants: list[str]) -> None:
    import asyncpg

    address = parse_address(url)
    connection = await asyncpg.connect(address.dsn)
    try:
        await connection.execute("set client_min_messages = warning")
        for tenant in tenants:
            await connection.execute(f"drop schema {address.schema}__{tenant} cascade")
    finally:
        await connection.close()
