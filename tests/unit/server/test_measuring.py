"""Requests and events of a running server, counted and logged."""

from __future__ import annotations

import asyncio
import io
import json
import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from fastapi import FastAPI
from prometheus_client.parser import text_string_to_metric_families
from starlette.responses import PlainTextResponse

from ekiden import Agent, Team
from ekiden.core.events import Event
from ekiden.project.service import Service, TenantService
from ekiden.server.access import Caller
from ekiden.server.metrics import CONTENT_TYPE, Counting, Metrics
from ekiden.server.middleware.access_log import Measuring
from ekiden.storage.base import Batch
from ekiden.testing import ScriptedModel, say
from ekiden.tracing.logs import ContextFilter, JsonFormatter
from tests.support.serving import application, client_of

ADMIN = frozenset({"admin"})


class Authorizer:
    """Accepts the caller in `now`."""

    def __init__(self) -> None:
        self.now = Caller(name="anna", scopes=frozenset({"admin"}))

    async def caller(self, connection: Any) -> Caller:
        return self.now

    async def recheck(self, caller: Caller) -> None:
        return None


def samples(page: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    return {
        (each.name, tuple(sorted(each.labels.items()))): each.value
        for family in text_string_to_metric_families(page)
        for each in family.samples
    }


def team() -> Team:
    return Team(Agent("desk", model=ScriptedModel(respond=lambda request: say("ok"))))


@pytest.fixture
async def app(tmp_path: Path) -> AsyncIterator[FastAPI]:
    """A server with metrics."""
    async with application(tmp_path, team=team(), gate=Authorizer()) as made:
        yield made


async def until(metrics: Metrics, desk: TenantService, name: str, count: float) -> None:
    """Wait until something was counted so often."""
    async with asyncio.timeout(60):
        while True:
            found = samples((await metrics.collect([desk])).decode())
            if sum(value for key, value in found.items() if key[0] == name) >= count:
                return
            await desk.store.wait_for_change(0.01)


async def test_prometheus_gets_requests_by_route(app: FastAPI) -> None:
    async with client_of(app) as client:
        await client.get("/api/v1/sessions")
        await client.get("/api/v1/sessions/nobody")
        await client.get("/nothing/here")
        found = await client.get("/metrics")
    assert found.headers["content-type"] == CONTENT_TYPE
    counts = {key[1]: value for key, value in samples(found.text).items()
              if key[0] == "ekiden_http_requests_total"}  # fmt: skip
    by_route = {dict(key)["route"]: (dict(key)["status"], value) for key, value in counts.items()}
    assert by_route["/api/v1/sessions"] == ("200", 1)
    assert by_route["/api/v1/sessions/{session_id}"] == ("404", 1)
    assert by_route["unmatched"] == ("404", 1)
    assert "nobody" not in found.text


async def test_only_the_operator_of_the_server_sees_metrics(app: FastAPI) -> None:
    gate = app.state.gate
    async with client_of(app) as client:
        gate.now = Caller(name="anna", scopes=frozenset({"read", "run", "answer"}))
        assert (await client.get("/metrics")).status_code == 403
        gate.now = Caller(name="anna", tenant="acme", scopes=ADMIN)
        assert (await client.get("/metrics")).status_code == 404


async def test_events_of_every_tenant_are_counted_once(app: FastAPI) -> None:
    metrics, service = app.state.metrics, app.state.service
    assert isinstance(service, Service)
    tenant_services = [await service.tenant_service(), await service.tenant_service("acme")]
    async with client_of(app) as client:
        for tenant in ("default", "acme"):
            app.state.gate.now = Caller(name="anna", tenant=tenant, scopes=ADMIN)
            await _run(client)
    await until(metrics, tenant_services[0], "ekiden_runs_total", 2)
    found = samples((await metrics.collect(tenant_services)).decode())
    for tenant in ("default", "acme"):
        labels = (("conclusion", "succeeded"), ("outcome", "done"), ("tenant", tenant))
        assert found["ekiden_runs_total", labels] == 1


async def test_events_that_a_fork_copied_are_not_counted_again(app: FastAPI) -> None:
    metrics, desk = app.state.metrics, await app.state.service.tenant_service()
    async with client_of(app) as client:
        first = await _run(client)
        branch = await client.post(f"/api/v1/sessions/{first}/fork", json={})
        await _run(client, branch.json()["session_id"])
    last = Event(
        session_id="",
        seq=0,
        type="message",
        at_us=await desk.store.now_us(),
        details={"deadlock": []},
    )
    await desk.store.write(Batch(events=[last]))
    await until(metrics, desk, "ekiden_deadlocks_total", 1)
    found = samples((await metrics.collect([desk])).decode())
    labels = (("conclusion", "succeeded"), ("outcome", "done"), ("tenant", "default"))
    assert found["ekiden_runs_total", labels] == 2


async def test_closing_a_tenant_service_ends_its_counting(app: FastAPI) -> None:
    counting = Counting(app.state.metrics)
    desk = await app.state.service.tenant_service("acme")
    counting.watch(desk)
    lone = Event(session_id="", seq=0, type="task", at_us=await desk.store.now_us())
    await asyncio.sleep(0)
    await desk.store.write(Batch(events=[lone]))
    await desk.hub.close()
    await asyncio.wait(counting._tasks.values(), timeout=60)
    assert all(task.done() for task in counting._tasks.values())
    counting.watch(desk)
    await asyncio.wait(counting._tasks.values(), timeout=60)
    await counting.close()


async def _run(client: httpx2.AsyncClient, session_id: str | None = None) -> str:
    found = await client.post("/api/v1/runs", json={"input": "hi", "session_id": session_id})
    assert found.status_code < 300, found.text
    return str(found.json()["session_id"])


async def test_a_request_that_fails_or_sends_nothing_is_counted() -> None:
    metrics = Metrics()

    async def fails(scope: Any, receive: Any, send: Any) -> None:
        if scope["path"] == "/late":
            await PlainTextResponse("ok")(scope, receive, send)
        if scope["path"] != "/silent":
            raise RuntimeError("broken")

    wrapped = Measuring(fails, metrics)

    async def call(path: str, kind: str = "http") -> None:
        async def send(message: Any) -> None: ...

        scope = {"type": kind, "path": path, "method": "GET", "headers": []}
        await wrapped(scope, None, send)

    for path in ("/now", "/late"):
        with pytest.raises(RuntimeError):
            await call(path)
    await call("/silent")
    await call("/silent", kind="websocket")
    found = samples((await metrics.collect([])).decode())
    statuses = {dict(key[1])["status"]: value for key, value in found.items()
                if key[0] == "ekiden_http_requests_total"}  # fmt: skip
    assert statuses == {"500": 1, "200": 1, "499": 1}


async def test_log_lines_contain_the_request_id_and_the_session(
    app: FastAPI,
) -> None:
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonFormatter())
    handler.addFilter(ContextFilter())
    access = logging.getLogger("ekiden.access")
    before = access.level
    access.addHandler(handler)
    access.setLevel(logging.INFO)
    try:
        async with client_of(app) as client:
            await client.get("/api/v1/sessions", headers={"x-request-id": "req-7"})
    finally:
        access.removeHandler(handler)
        access.setLevel(before)
    (line,) = map(json.loads, stream.getvalue().splitlines())
    assert line["request_id"] == "req-7"
    assert (line["status"], line["route"]) == (200, "/api/v1/sessions")
