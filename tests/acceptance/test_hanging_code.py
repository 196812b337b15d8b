"""Code that ignores cancellation holds up neither a process nor a request."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ekiden.engine import submit
from ekiden.sessions import Session
from ekiden.storage.sqlite import SqliteStore
from tests.support.hanging_team import team
from tests.support.worker_processes import Site, client_of, site

TEAM = "tests.support.hanging_team:team"

pytestmark = pytest.mark.slow


@pytest.fixture
def at(tmp_path: Path) -> Iterator[Site]:
    with site(tmp_path, str(tmp_path / "s.db")) as made:
        yield made


def began(folder: Path, name: str) -> None:
    """Wait until the agent's code runs."""
    deadline = time.monotonic() + 60
    while not (folder / f"{name}.began").exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.parametrize("name", ["threads", "ignores"])
def test_a_worker_exits_although_user_code_still_runs(at: Site, tmp_path: Path, name: str) -> None:
    async def say() -> None:
        async with SqliteStore(Path(at.store)) as store:
            await submit(team[name], "go", session=Session("a", store=store))

    asyncio.run(say())
    worker = at.worker("--grace", "0", team=TEAM)
    assert worker.told
    began(tmp_path, name)
    assert worker.end(signal.SIGTERM) == 0


@pytest.mark.parametrize("name", ["threads", "ignores"])
def test_a_server_answers_and_exits_although_user_code_still_runs(
    at: Site, tmp_path: Path, name: str
) -> None:
    server = at.server(team=TEAM)
    with client_of(server) as client:
        started = client.post("/runs", json={"input": "go", "agent": name, "background": True})
        assert started.status_code in (200, 202), started.text
        run_id = started.json()["run_id"]
        began(tmp_path, name)
        cancelled = client.post(f"/runs/{run_id}/cancel")
        assert cancelled.json()["status"] == ("running" if name == "ignores" else "stopped")
    assert server.end(signal.SIGTERM) == 0
