"""`ekiden trace --otlp`: the command and a real receiver."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.acceptance.conftest import Ekiden, Ran
from tests.support.otlp import OtlpServer

TEAM = """
from ekiden import Agent, Team
from ekiden.testing import ScriptedModel, say, transfer

orders = Agent("orders", model=ScriptedModel([say("It comes tomorrow.")]))
triage = Agent("triage", model=ScriptedModel([transfer("orders")]), handoffs=[orders])
team = Team(triage, orders)
"""


@pytest.fixture
async def collector() -> AsyncIterator[OtlpServer]:
    async with OtlpServer() as server:
        yield server


@pytest.fixture
def desk(tmp_path: Path) -> Ekiden:
    """A folder with one session."""
    (tmp_path / "shop.py").write_text(TEAM)
    ekiden = Ekiden(tmp_path)
    ekiden.env = {name: value for name, value in ekiden.env.items() if not name.startswith("OTEL_")}
    ekiden.env["EKIDEN_TEAM"] = "shop:team"
    assert ekiden("run", "--session", "s1", "Where is my parcel?").code == 0
    return ekiden


async def call(ekiden: Ekiden, *arguments: str, **env: str) -> Ran:
    return await asyncio.to_thread(ekiden, *arguments, **env)


async def test_a_stored_trace_is_sent_to_a_collector(desk: Ekiden, collector: OtlpServer) -> None:
    ran = await call(desk, "trace", "s1", "--otlp", "--endpoint", collector.origin)
    assert (ran.code, ran.err) == (0, "")
    assert ran.out == f"trace {collector.spans[0].trace_id}: {len(collector.spans)} spans sent\n"
    (link,) = collector.named("execute_tool transfer_to_orders").links
    assert link.span_id == collector.named("invoke_agent orders").span_id
    assert b"parcel" not in collector.requests[0].body


@pytest.mark.slow
async def test_message_content_is_sent_on_request(desk: Ekiden, collector: OtlpServer) -> None:
    ran = await call(
        desk, "trace", "s1", "--otlp", "--endpoint", collector.origin, "--content", "--json"
    )
    assert ran.json["sent"] == len(collector.spans)
    assert b"parcel" in collector.requests[0].body


@pytest.mark.slow
async def test_standard_otel_variables_are_used(desk: Ekiden, collector: OtlpServer) -> None:
    env = {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.origin, "OTEL_SERVICE_NAME": "desk"}
    assert (await call(desk, "trace", "s1", "--otlp", **env)).code == 0
    assert collector.spans[0].resource["service.name"] == "desk"
    ran = await call(desk, "trace", "s1", "--otlp", **env, OTEL_SDK_DISABLED="true")
    assert (ran.code, ran.err) == (0, "OTEL_SDK_DISABLED is set: nothing was sent\n")
    assert len(collector.requests) == 1


@pytest.mark.slow
async def test_a_collector_that_rejects_the_trace_is_an_error(
    desk: Ekiden, collector: OtlpServer
) -> None:
    collector.default_status = 401
    ran = await call(desk, "trace", "s1", "--otlp", "--endpoint", collector.origin)
    assert ran.code == 1
    assert "error[cli.not_sent]: the collector refuses the credentials (401)" in ran.err


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--endpoint", "http://127.0.0.1:1"], "--endpoint works only with --otlp"),
        (["--otlp", "--format", "jsonl"], "--otlp sends a whole trace"),
        (["--otlp", "--follow"], "--otlp sends a whole trace"),
        (["--otlp", "--endpoint", "collector"], "is not the address of a collector"),
    ],
)
def test_an_invalid_otlp_command_line_is_refused(
    desk: Ekiden, options: list[str], problem: str
) -> None:
    ran = desk("trace", "s1", *options)
    assert ran.code == 2
    assert problem in ran.err
