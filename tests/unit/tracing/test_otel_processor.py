"""Spans that leave the process as they end, without a store that is followed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from ekiden import Agent, Runner, Session
from ekiden.storage.memory import MemoryStore
from ekiden.tracing.lookup import read_trace
from ekiden.tracing.otel_exporter import OtelProcessor, add_otel_processor
from ekiden.tracing.processors import RunTrace, flush_traces, set_trace_processors
from tests.support.otlp import OtlpServer
from tests.unit.tracing.otel_team import SECRET, a_span, clean_environment, conversation

__all__ = ["clean_environment"]


@pytest.fixture
async def collector() -> AsyncIterator[OtlpServer]:
    async with OtlpServer() as server:
        yield server
        await asyncio.to_thread(set_trace_processors, ())


async def test_spans_of_every_run_in_the_process_are_sent(collector: OtlpServer) -> None:
    add_otel_processor(collector.origin)
    store = MemoryStore()
    await conversation(store)
    await asyncio.to_thread(flush_traces)
    spans = (await read_trace(store, "s1")).spans
    assert {span.span_id for span in collector.spans} == {
        span.span_id for span in spans if span.kind != "session"
    }
    target = collector.named("invoke_agent billing")
    (link,) = collector.named("execute_tool transfer_to_billing").links
    assert link.span_id == target.span_id
    assert collector.named("run").parent_id is None
    assert b"invoice" not in b"".join(request.body for request in collector.requests)


async def test_content_is_sent_on_request(collector: OtlpServer) -> None:
    add_otel_processor(collector.origin, content=True)
    await conversation(MemoryStore())
    await asyncio.to_thread(flush_traces)
    sent = b"".join(request.body for request in collector.requests)
    assert b"invoice" in sent
    assert SECRET.encode() not in sent


async def test_a_run_is_below_the_span_of_the_caller(collector: OtlpServer) -> None:
    add_otel_processor(collector.origin)
    caller = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    await conversation(MemoryStore(), traceparent=caller)
    await asyncio.to_thread(flush_traces)
    assert collector.named("run").parent_id == "b7ad6b7169203331"


async def test_the_spans_of_an_asked_session_are_below_the_question(collector: OtlpServer) -> None:
    async def answer(ctx: Any) -> str:
        return "42"

    async def ask(ctx: Any) -> str:
        return str(await ctx.ask("oracle", "How many?"))

    add_otel_processor(collector.origin)
    store = MemoryStore()
    oracle = Agent("oracle", run=answer)
    asker = Agent("asker", run=ask, handoffs=[oracle])
    result = await Runner.run(asker, "hi", session=Session("s1", store=store))
    assert result.final_output == "42"
    await asyncio.to_thread(flush_traces)
    trace = await read_trace(store, "s1")
    tops = {span.span_id: span.parent_id for span in trace.spans if span.kind == "session"}
    wanted = {
        span.span_id: tops.get(span.parent_id or "", span.parent_id)
        for span in trace.spans
        if span.kind != "session"
    }
    assert {span.span_id: span.parent_id for span in collector.spans} == wanted
    assert len({span.trace_id for span in collector.spans}) == 1


async def test_nothing_is_sent_while_the_sdk_is_disabled(
    collector: OtlpServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    processor = OtelProcessor(collector.origin)
    processor.on_span_end(a_span())
    processor.force_flush()
    processor.shutdown()
    assert not collector.requests


async def test_the_cache_of_sessions_is_bounded(
    collector: OtlpServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ekiden.tracing.otel_exporter._MOST_SESSIONS", 2)
    processor = OtelProcessor(collector.origin)
    for number in range(5):
        started = RunTrace(
            trace_id="0" * 31 + "1", session_id=f"s{number}", name="a", group_id="g", parent_id=None
        )
        processor.on_trace_start(started)
    assert len(processor._tops) == 2
    await asyncio.to_thread(processor.shutdown)
