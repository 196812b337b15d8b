"""The server as it starts: fast, and complete as soon as it is asked."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, cast

import pytest

from ekiden.core.errors.server import StandardUnavailable
from ekiden.core.integrations.registry import Integration
from ekiden.project import load_project
from ekiden.project.service import Service
from ekiden.server import ServerConfig, application
from ekiden.server.process import LazyApplication, listen, run_server
from tests.support.serving import client_of

START = """
import asyncio, sys
from pathlib import Path
from ekiden.cli.process import prepared_config
from ekiden.project import load_project
from ekiden.project.service import Service
from ekiden.server.process import LazyApplication, listen, run_server

async def start():
    here = Path(sys.argv[1])
    async with load_project(here, home=here) as project:
        config = await prepared_config(project.settings, "memory:", host=None, port=0, token="t")
        app = LazyApplication(Service(project, store="memory:"), config)
        said = []
        async def receive(): return {"type": "http.request"}
        async def send(message): said.append(message)
        async with app._parts.running():
            scope = {"type": "http", "method": "GET", "path": "/healthz", "query_string": b""}
            await app({**scope, "headers": []}, receive, send)
        assert said[0]["status"] == 200, said
        print(*sorted({name.partition(".")[0] for name in sys.modules}))
        print(*sorted(name for name in sys.modules if name.startswith("ekiden.integrations.")))

asyncio.run(start())
"""


def test_a_server_starts_without_packages_needed_only_by_requests(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", START, str(tmp_path)], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    loaded, integrations = done.stdout.split("\n")[:2]
    heavy = {"a2a", "fastapi", "mcp", "numpy", "opentelemetry", "pydantic", "pydantic_ai", "rich"}
    assert set(loaded.split()) & heavy == set()
    assert integrations == ""


@pytest.fixture
async def app(tmp_path: Path) -> AsyncIterator[LazyApplication]:
    async with load_project(tmp_path, home=tmp_path / "home") as project:
        made = LazyApplication(Service(project, store="memory:"), ServerConfig())
        async with made._parts.running():
            yield made


async def test_health_is_the_same_before_and_after_the_routes_are_loaded(
    app: LazyApplication,
) -> None:
    async with client_of(app) as client:
        before = await client.get("/healthz")
        assert app._application is None
        assert (await client.get("/readyz")).status_code == 200
        assert app._application is not None
        after = await client.get("/healthz")
    for each in (before, after):
        del each.headers["x-request-id"]
    assert (before.status_code, before.content) == (200, after.content)
    assert dict(before.headers) == dict(after.headers)


async def test_requests_for_health_are_measured_before_the_routes_are_loaded(
    app: LazyApplication,
) -> None:
    async with client_of(app) as client:
        await client.get("/healthz")
        text = (await client.get("/metrics")).text
    assert 'ekiden_http_requests_total{method="GET",route="/healthz",status="200"} 1.0' in text


async def test_the_first_request_of_every_standard_is_answered(app: LazyApplication) -> None:
    hello = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "x", "version": "1"},
        },
    }
    both = {"Accept": "application/json, text/event-stream"}
    task = {"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": {"id": "nothing"}}
    async with client_of(app) as client:
        mcp = await client.post("/mcp", json=hello, headers=both)
        assert (mcp.status_code, "serverInfo" in mcp.text) == (200, True)
        rpc = await client.post("/a2a", json=task, headers={"A2A-Version": "1.0"})
        assert (rpc.status_code, rpc.json()["id"]) == (200, 1)
        card = await client.get("/.well-known/agent-card.json")
        assert card.json()["name"] == "Ekiden"
        models = await client.get("/v1/models")
        assert models.json()["object"] == "list"
        assert (await client.post("/api/v1/agui", json={})).status_code == 422
        paths = (await client.get("/openapi.json")).json()["paths"]
        assert {"/v1/models", "/api/v1/agui", "/healthz"} <= paths.keys()


async def test_a_standard_that_cannot_be_loaded_does_not_affect_the_others(
    app: LazyApplication, monkeypatch: pytest.MonkeyPatch
) -> None:
    load = Integration.load

    def broken(self: Integration) -> Any:
        if self.name == "mcp_server":
            raise ImportError("half of the package is missing")
        return load(self)

    async with client_of(app) as client:
        with monkeypatch.context() as patched:
            patched.setattr(Integration, "load", broken)
            refused = await client.post("/mcp", json={})
            told = refused.json()
            assert (refused.status_code, told["code"]) == (503, StandardUnavailable.code)
            assert "mcp_server cannot be loaded" in told["detail"]
            assert (await client.get("/.well-known/agent-card.json")).status_code == 200
        assert (await client.post("/mcp", json={})).status_code != 503


async def test_a_server_whose_routes_cannot_be_loaded_reports_it_and_recovers(
    app: LazyApplication, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise ImportError("half of the package is missing")

    async with client_of(app) as client:
        with monkeypatch.context() as patched:
            patched.setattr(application, "application", broken)
            failed = await client.get("/api/v1/sessions")
            assert (failed.status_code, failed.json()["code"]) == (500, "server.internal")
            assert (await client.get("/healthz")).status_code == 200
        assert (await client.get("/api/v1/sessions")).status_code == 200


class Waiting:
    """A service that never opens, like one whose database does not answer."""

    def each_tenant(self, watch: object) -> None:
        pass

    async def __aenter__(self) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.Event().wait()

    async def __aexit__(self, *exc: object) -> None:
        pass


async def test_a_signal_ends_a_waiting_start() -> None:
    config = ServerConfig(host="127.0.0.1", port=0)
    with listen("127.0.0.1", 0) as listener:
        await run_server(cast(Service, Waiting()), config, listener, ready=pytest.fail)
