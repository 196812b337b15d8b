"""Traces for other programs: what is in them, and what is not."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from ekiden.core.agent import Agent, Team
from ekiden.core.privacy.masking import MASK
from ekiden.runtime import CodeContext, RunConfig, Runner
from ekiden.sessions import Session
from ekiden.storage.memory import MemoryStore
from ekiden.testing import ScriptedModel, call, say, transfer
from ekiden.tools import function_tool
from ekiden.tracing import Span, Trace, export_jsonl, export_openai, read_trace, trace_events
from ekiden.tracing.exports import LEFT_OUT, redacted, without_content

KEY = "sk-proj-abcdefghijklmnopqrstuvwxyz0123456789"
WORDS = ("Where is 订单 7?", "a parcel", "on its way", '"order"', "It is on its way.")


@function_tool
def lookup(order: int) -> str:
    """Find an order."""
    if order < 0:
        raise ValueError(f"the key {KEY} does not open order {order}")
    return "on its way"


async def store_of(*, order: int = 7, **config: Any) -> MemoryStore:
    """A store with a session in which an order is looked up."""
    store = MemoryStore()
    model = ScriptedModel(
        [transfer("orders", reason="a parcel"), call("lookup", order=order), say(WORDS[-1])]
    )
    orders = Agent("orders", model=model, tools=[lookup])
    triage = Agent("triage", model=model, handoffs=[orders])
    session = Session("s1", store=store)
    await Runner.run(triage, WORDS[0], session=session, run_config=RunConfig(**config))
    return store


async def trace_of(**options: Any) -> Trace:
    return await read_trace(await store_of(**options), "s1")


async def test_json_lines_are_spans_in_tree_order_without_content() -> None:
    trace = await trace_of()
    lines = [json.loads(line) for line in export_jsonl(trace)]
    assert [each["span_id"] for each in lines] == [node.span.span_id for node in trace.nodes()]
    assert not any(word in json.dumps(lines, ensure_ascii=False) for word in WORDS)
    full = json.dumps([json.loads(each) for each in export_jsonl(trace, include_content=True)])
    assert "on its way" in full
    assert "a parcel" in full


async def test_api_keys_are_masked_in_every_export() -> None:
    store = await store_of(order=-1)
    trace = await read_trace(store, "s1")
    for include_content in (False, True):
        shown = "".join(export_jsonl(trace, include_content=include_content))
        shown += json.dumps(export_openai(trace, include_content=include_content))
        shown += json.dumps(await trace_events(store, "s1", include_content=include_content))
        assert KEY not in shown
        assert (MASK in shown) is include_content
    [error] = trace.errors()
    assert KEY not in (error.error or ""), "it is not even stored"
    assert without_content(error).error == "ValueError"
    assert redacted(replace(error, error=f"denied: {KEY}")).error == "denied: [api_key]"
    assert redacted(trace.spans[0]) is trace.spans[0]


def test_an_error_of_unknown_kind_is_omitted() -> None:
    span = Span(
        trace_id="0" * 32, span_id="0" * 16, parent_id=None, kind="run", name="run 1",
        session_id="s", agent_name=None, correlation_id="s", started_at_us=0, ended_at_us=1,
        error="Alice: hello",
    )  # fmt: skip
    assert without_content(span).error == LEFT_OUT
    assert without_content(replace(span, details={"code": "TIMEOUT"})).error == "TIMEOUT"


async def test_the_openai_export_has_the_format_of_the_sdk() -> None:
    trace = await trace_of()
    first, *spans = export_openai(trace, include_content=True, workflow_name="desk")
    assert first == {
        "object": "trace",
        "id": f"trace_{trace.trace_id}",
        "workflow_name": "desk",
        "group_id": "s1",
        "metadata": None,
    }
    assert {each["object"] for each in spans} == {"trace.span"}
    ids = {each["id"] for each in spans}
    assert [each["parent_id"] for each in spans if each["parent_id"] not in ids] == [None]
    by_type = {each["span_data"]["type"]: each for each in spans}
    assert set(by_type) == {"custom", "agent", "generation", "handoff", "function"}
    assert by_type["handoff"]["span_data"] == {
        "type": "handoff",
        "from_agent": "triage",
        "to_agent": "orders",
    }
    function = by_type["function"]["span_data"]
    assert (function["name"], function["input"]) == ("lookup", '{"order":7}')
    assert function["output"] == "on its way"
    assert by_type["function"]["started_at"].endswith("+00:00")
    assert by_type["function"]["error"] is None
    failed = export_openai(await trace_of(order=-1))
    [error] = [each["error"] for each in failed[1:] if each["error"]]
    assert error["message"] == "ValueError"


async def test_every_event_has_its_place_in_the_trace() -> None:
    store = await store_of()
    trace = await read_trace(store, "s1")
    events = await trace_events(store, "s1")
    assert [each["event_id"] for each in events] == [f"s1/{n}" for n in range(1, len(events) + 1)]
    spans = {span.span_id: span for span in trace.spans}
    for each in events:
        span = spans[each["span_id"]]
        assert (each["trace_id"], each["parent_id"]) == (trace.trace_id, span.parent_id)
        assert each["correlation_id"] == "s1"
        assert "items" not in each
    kinds = {(each["event_type"], spans[each["span_id"]].kind) for each in events}
    assert {("agent_start", "agent"), ("agent_complete", "agent"), ("handoff", "handoff")} <= kinds
    assert not any(word in json.dumps(events, ensure_ascii=False) for word in WORDS)
    full = await trace_events(store, "s1", include_content=True)
    assert full[0]["items"] == [{"role": "user", "content": WORDS[0]}]


async def test_no_export_shows_content_of_a_run_without_sensitive_data() -> None:
    store = await store_of(trace_include_sensitive_data=False)
    trace = await read_trace(store, "s1")
    shown = "".join(export_jsonl(trace, include_content=True))
    shown += json.dumps(export_openai(trace, include_content=True), ensure_ascii=False)
    shown += json.dumps(await trace_events(store, "s1", include_content=True), ensure_ascii=False)
    assert not any(word in shown for word in WORDS)
    assert "lookup" in shown
    assert all(not span.content for span in trace.spans)


@pytest.mark.parametrize("tells", [False, True])
async def test_no_export_shows_what_a_run_without_sensitive_data_asked_or_told(tells: bool) -> None:
    async def code(ctx: CodeContext) -> Any:
        if tells:
            await ctx.tell("expert", "the secret subject", {"about": "the secret payload"})
            return "told"
        return await ctx.ask("expert", "the secret subject", {"about": "the secret payload"})

    store = MemoryStore()
    expert = Agent("expert", model=ScriptedModel([say("the secret answer")]))
    team = Team(Agent("boss", run=code), expert)
    config = RunConfig(trace_include_sensitive_data=False)
    await Runner.run(team, "go", session=Session("s1", store=store), run_config=config)
    trace = await read_trace(store, "s1")
    assert len([each for each in trace.spans if each.kind == "session"]) == 2
    assert "secret" not in "".join(export_jsonl(trace, include_content=True))
