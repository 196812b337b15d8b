"""A team for the tests of exports, and a clean environment."""

from __future__ import annotations

import os
from typing import Any

import pytest

from ekiden import Agent, Runner, Session, function_tool
from ekiden.storage.base import Store
from ekiden.testing import ScriptedModel, call, say, transfer
from ekiden.tracing.spans import Span

SECRET = "sk-proj-abc123def456ghi789jkl012"


@function_tool
def lookup(order: str) -> str:
    """Find an order."""
    return f"order {order}: the key is {SECRET}"


def team() -> Agent[Any]:
    """Triage hands over to billing, which looks something up."""
    billing = Agent(
        name="billing",
        model=ScriptedModel([call("lookup", order="A1"), say("It is paid.")]),
        tools=[lookup],
    )
    return Agent(name="triage", model=ScriptedModel([transfer("billing")]), handoffs=[billing])


async def conversation(store: Store, session_id: str = "s1", **meta: Any) -> None:
    """One run with a handoff and a tool."""
    session = Session(session_id, store=store)
    session.meta.update(meta)
    await Runner.run(team(), "Where is my invoice?", session=session)


def a_span(**changes: Any) -> Span:
    """A span of a tool; any field can be changed."""
    values: dict[str, Any] = {
        "trace_id": "0af7651916cd43dd8448eb211c80319c",
        "span_id": "b7ad6b7169203331",
        "parent_id": None,
        "kind": "tool_call",
        "name": "lookup",
        "session_id": "s1",
        "agent_name": "billing",
        "correlation_id": "c1",
        "started_at_us": 1_700_000_000_000_000,
        "ended_at_us": 1_700_000_000_250_000,
        "details": {"tool": "lookup", "call_id": "call_1"},
    }
    return Span(**{**values, **changes})


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """No settings of the machine count, and waits are short."""
    for name in list(os.environ):
        if name.startswith("OTEL_") or name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "5")
