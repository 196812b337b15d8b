"""Processors of the OpenAI Agents SDK, called for Ekiden's runs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from ekiden.compat.agents import (
    Agent,
    RunConfig,
    Runner,
    add_trace_processor,
    custom_span,
    function_tool,
    set_trace_processors,
    set_tracing_disabled,
)
from ekiden.compat.agents.tracing import (
    AgentSpanData,
    FunctionSpanData,
    GenerationSpanData,
    HandoffSpanData,
    Span,
    TaskSpanData,
    Trace,
    TracingProcessor,
    TurnSpanData,
    flush_traces,
)
from ekiden.testing import ScriptedModel, call, say, transfer


class Recorder(TracingProcessor):
    """As users of that SDK write them."""

    def __init__(self) -> None:
        self.traces: list[Trace] = []
        self.started: list[Span[Any]] = []
        self.spans: list[Span[Any]] = []
        self.calls: list[str] = []

    def on_trace_start(self, trace: Trace) -> None:
        self.traces.append(trace)

    def on_trace_end(self, trace: Trace) -> None:
        self.calls.append("trace_end")

    def on_span_start(self, span: Span[Any]) -> None:
        self.started.append(span)

    def on_span_end(self, span: Span[Any]) -> None:
        self.spans.append(span)

    def shutdown(self) -> None:
        self.calls.append("shutdown")

    def force_flush(self) -> None:
        self.calls.append("flush")


@pytest.fixture(autouse=True)
def _reset_tracing() -> Iterator[None]:
    yield
    set_tracing_disabled(False)
    set_trace_processors([])


@function_tool
def lookup(order: int) -> str:
    """Find an order."""
    if order < 0:
        raise ValueError("there is none")
    return "on its way"


def desk(order: int = 7) -> Agent[Any]:
    model = ScriptedModel([transfer("orders"), call("lookup", order=order), say("Soon.")])
    orders = Agent(name="orders", model=model, tools=[lookup])
    return Agent(name="triage", model=model, handoffs=[orders])


async def test_a_processor_gets_traces_in_the_format_of_the_sdk() -> None:
    recorder = Recorder()
    add_trace_processor(recorder)
    await Runner.run(desk(), "Where is it?")
    [trace] = recorder.traces
    exported = trace.export()
    assert exported is not None
    assert (exported["object"], exported["workflow_name"]) == ("trace", "Agent workflow")
    assert trace.trace_id.startswith("trace_")
    assert recorder.calls == ["trace_end"]
    data = [span.span_data for span in recorder.spans]
    assert [each.name for each in data if isinstance(each, AgentSpanData)] == ["triage", "orders"]
    [handoff] = [each for each in data if isinstance(each, HandoffSpanData)]
    assert (handoff.from_agent, handoff.to_agent) == ("triage", "orders")
    [function] = [each for each in data if isinstance(each, FunctionSpanData)]
    assert (function.name, function.input, function.output) == (
        "lookup",
        '{"order":7}',
        "on its way",
    )
    assert len([each for each in data if isinstance(each, GenerationSpanData)]) == 3
    assert [each.turn for each in data if isinstance(each, TurnSpanData)] == [1, 2, 3]
    assert isinstance(data[-1], TaskSpanData)
    assert {span.trace_id for span in recorder.spans} == {trace.trace_id}


async def test_spans_are_nested_below_the_run_and_exported_as_json() -> None:
    recorder = Recorder()
    set_trace_processors([recorder])
    await Runner.run(desk(-1), "Where is it?")
    exported: list[dict[str, Any]] = [span.export() or {} for span in recorder.spans]
    ids = {each["id"] for each in exported}
    assert [each["parent_id"] for each in exported if each["parent_id"] not in ids] == [None]
    [error] = [each["error"] for each in exported if each["error"]]
    assert "there is none" in error["data"]["error"]
    assert all(each["started_at"] <= each["ended_at"] for each in exported)


async def test_run_settings_name_the_trace_and_tool_spans_are_nested() -> None:
    recorder = Recorder()
    add_trace_processor(recorder)

    @function_tool
    def look() -> str:
        """Look."""
        with custom_span("inside"):
            return "seen"

    agent = Agent(name="one", model=ScriptedModel([call("look"), say("Yes.")]), tools=[look])
    config = RunConfig(workflow_name="orders", group_id="g1", trace_metadata={"who": "me"})
    await Runner.run(agent, "Hello?", run_config=config)
    await Runner.run(
        Agent(name="two", model=ScriptedModel([say("No.")])),
        "Hello?",
        run_config=RunConfig(tracing_disabled=True),
    )
    [trace] = recorder.traces
    shown = trace.export() or {}
    assert (shown["workflow_name"], shown["group_id"]) == ("orders", "g1")
    assert shown["metadata"] == {"who": "me"}
    [function] = [each for each in recorder.spans if each.span_data.type == "function"]
    [inside] = [each for each in recorder.spans if each.span_data.type == "custom"]
    assert inside.parent_id == function.span_id


async def test_prompts_arguments_and_results_are_omitted_on_request() -> None:
    recorder = Recorder()
    add_trace_processor(recorder)
    config = RunConfig(trace_include_sensitive_data=False)
    await Runner.run(desk(), "Where is it?", run_config=config)
    assert recorder.spans
    shown = str([span.export() for span in recorder.spans])
    assert not any(word in shown for word in ("Where is it?", '"order"', "on its way", "Soon."))


async def test_tracing_can_be_switched_off_flushed_and_ended() -> None:
    recorder = Recorder()
    add_trace_processor(recorder)
    set_tracing_disabled(True)
    await Runner.run(desk(), "Where is it?")
    assert recorder.spans == []
    flush_traces()
    set_trace_processors([])
    assert recorder.calls == ["flush", "shutdown"]
