"""Traces of a server's desks, sent to a collector."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ekiden import Agent, Team
from ekiden.project.service import Telemetry
from ekiden.storage.base import Store
from ekiden.storage.memory import MemoryStore
from ekiden.testing import ScriptedModel, say
from ekiden.tracing.otel_exporter import is_wanted
from tests.support.gates import OpenGate
from tests.support.otlp import OtlpServer
from tests.support.serving import application, client_of
from tests.unit.tracing.otel_team import clean_environment, conversation

__all__ = ["clean_environment"]


@dataclass
class Desk:
    """What telemetry needs of a desk."""

    store: Store
    tenant: str = "default"


@pytest.fixture
async def collector(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[OtlpServer]:
    async with OtlpServer() as server:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", server.origin)
        yield server


async def begun(store: Store) -> None:
    """Until a follower knows from where on it sends."""
    async with asyncio.timeout(60):
        while await store.get_document("otel.exporters", "default") is None:
            await store.wait_for_change(0.01)


async def test_spans_of_every_tenant_are_exported_with_the_tenant(
    collector: OtlpServer,
) -> None:
    telemetry = Telemetry()
    desks: Any = [Desk(MemoryStore()), Desk(MemoryStore(), "acme")]
    for desk in (*desks, *desks):
        telemetry.watch(desk)
    for number, desk in enumerate(desks):
        await begun(desk.store)
        await conversation(desk.store, f"s{number}")
    await collector.wait_for_spans(18)
    await telemetry.close()
    tenants = {
        span.attributes["gen_ai.conversation.id"]: span.attributes["ekiden.tenant"]
        for span in collector.spans
    }
    assert tenants == {"s0": "default", "s1": "acme"}


async def test_a_server_exports_the_traces_of_its_runs(
    collector: OtlpServer, tmp_path: Path
) -> None:
    team = Team(Agent("desk", model=ScriptedModel([say("ok")])))
    async with application(tmp_path, team=team, gate=OpenGate()) as app, client_of(app) as client:
        await begun((await app.state.service.tenant_service()).store)
        started = await client.post("/api/v1/runs", json={"input": "hi"})
        assert started.status_code < 300, started.text
        await collector.wait_until(lambda: "run" in collector.names)
    run = collector.named("run")
    assert run.attributes["ekiden.tenant"] == "default"
    assert run.parent_id is None
    assert collector.named("invoke_agent desk").parent_id == run.span_id


async def test_telemetry_closes_while_the_collector_is_unavailable(collector: OtlpServer) -> None:
    collector.default_status = 500
    telemetry = Telemetry()
    desk: Any = Desk(MemoryStore())
    telemetry.watch(desk)
    await begun(desk.store)
    await conversation(desk.store)
    await collector.wait_for_requests(1)
    await telemetry.close()
    document = await desk.store.get_document("otel.exporters", "default")
    assert document is not None
    assert document.body["owner"] is None


async def test_without_an_endpoint_no_export_starts() -> None:
    telemetry = Telemetry()
    desk: Any = Desk(MemoryStore())
    telemetry.watch(desk)
    await telemetry.close()
    assert await desk.store.get_document("otel.exporters", "default") is None


async def test_without_the_sdk_the_server_runs_and_warns(
    collector: OtlpServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    caplog.set_level(logging.WARNING)
    telemetry = Telemetry()
    for tenant in ("default", "acme"):
        desk: Any = Desk(MemoryStore(), tenant)
        telemetry.watch(desk)
    assert caplog.text.count("no traces are sent") == 1
    await telemetry.close()


class Broken(MemoryStore):
    """A store that fails as none should."""

    async def now_us(self) -> int:
        raise RuntimeError("broken")


async def test_an_exporter_that_fails_is_logged(
    collector: OtlpServer, caplog: pytest.LogCaptureFixture
) -> None:
    telemetry = Telemetry()
    desk: Any = Desk(Broken())
    telemetry.watch(desk)
    await asyncio.wait([task for _, task in telemetry._followers.values()], timeout=60)
    await asyncio.sleep(0)
    assert "traces are not sent any more: broken" in caplog.text
    await telemetry.close()


@pytest.mark.parametrize(
    ("variables", "wanted"),
    [
        ({}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": " "}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318"}, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://c:4318/v1/traces"}, True),
        ({"OTEL_TRACES_EXPORTER": "otlp"}, True),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c", "OTEL_TRACES_EXPORTER": "none"}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c", "OTEL_SDK_DISABLED": "true"}, False),
    ],
)
def test_environment_variables_decide_whether_traces_are_exported(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], wanted: bool
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert is_wanted() is wanted
