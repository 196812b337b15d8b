"""Traces sent to a real OTLP/HTTP receiver."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from collections.abc import AsyncIterator
from typing import Any

import pytest
import requests
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

from ekiden.core.errors import UserError
from ekiden.storage.memory import MemoryStore
from ekiden.tracing.lookup import read_trace
from ekiden.tracing.otel_exporter import (
    OtelSpans,
    OtlpReport,
    OtlpSender,
    export_otlp,
    traces_endpoint,
)
from ekiden.tracing.spans import Span, Tokens
from tests.support.cases import each_case
from tests.support.otlp import OtlpServer
from tests.unit.tracing.otel_team import SECRET, a_span, clean_environment, conversation

__all__ = ["clean_environment"]


@pytest.fixture
async def collector() -> AsyncIterator[OtlpServer]:
    async with OtlpServer() as server:
        yield server


async def export(spans: list[Span], *args: Any, **named: Any) -> OtlpReport:
    return await asyncio.to_thread(export_otlp, spans, *args, **named)


async def exported_conversation(collector: OtlpServer, **named: Any) -> list[Span]:
    store = MemoryStore()
    await conversation(store)
    spans = list((await read_trace(store, "s1")).spans)
    report = await export(spans, collector.origin, **named)
    assert report.problem is None
    assert report.sent == len(spans) - 1 == len(collector.spans)
    return spans


async def test_exported_spans_have_the_ids_and_times_of_the_trace(collector: OtlpServer) -> None:
    spans = await exported_conversation(collector)
    ours = {span.span_id: span for span in spans if span.kind != "session"}
    assert {span.span_id for span in collector.spans} == set(ours)
    for got in collector.spans:
        mine = ours[got.span_id]
        assert got.trace_id == mine.trace_id
        assert got.start_ns == mine.started_at_us * 1000
        assert mine.ended_at_us is not None
        assert got.end_ns == mine.ended_at_us * 1000
        assert got.attributes["gen_ai.conversation.id"] == "s1"
        assert got.attributes["ekiden.correlation_id"] == "s1"
        assert got.scope == "ekiden"


async def test_agents_models_and_tools_follow_the_otel_conventions(
    collector: OtlpServer,
) -> None:
    await exported_conversation(collector)
    stay = collector.named("invoke_agent billing")
    assert (stay.kind, stay.attributes["gen_ai.operation.name"]) == ("INTERNAL", "invoke_agent")
    assert stay.attributes["gen_ai.agent.name"] == "billing"
    tool = collector.named("execute_tool lookup")
    assert (tool.kind, tool.attributes["gen_ai.operation.name"]) == ("INTERNAL", "execute_tool")
    assert tool.attributes["gen_ai.tool.name"] == "lookup"
    assert tool.attributes["gen_ai.tool.type"] == "function"
    assert tool.parent_id == stay.span_id
    chats = [span for span in collector.spans if span.name == "chat scripted"]
    assert len(chats) == 3
    assert {span.kind for span in chats} == {"CLIENT"}
    assert {span.attributes["gen_ai.operation.name"] for span in chats} == {"chat"}


async def test_a_handoff_is_a_tool_span_with_a_link_to_its_target(
    collector: OtlpServer,
) -> None:
    await exported_conversation(collector)
    handoff = collector.named("execute_tool transfer_to_billing")
    target = collector.named("invoke_agent billing")
    assert handoff.parent_id == collector.named("invoke_agent triage").span_id
    assert handoff.attributes["ekiden.handoff.source"] == "triage"
    assert handoff.attributes["ekiden.handoff.target"] == "billing"
    assert handoff.attributes["ekiden.handoff.status"] == "completed"
    assert handoff.attributes["gen_ai.tool.name"] == "transfer_to_billing"
    (link,) = handoff.links
    assert (link.trace_id, link.span_id) == (target.trace_id, target.span_id)
    assert link.attributes == {"ekiden.link": "target"}
    (back,) = target.links
    assert (back.span_id, back.attributes) == (handoff.span_id, {"ekiden.link": "handoff"})


async def test_a_run_is_the_root_of_its_trace(collector: OtlpServer) -> None:
    await exported_conversation(collector)
    assert collector.named("run").parent_id is None
    assert "session" not in collector.names


async def test_a_session_with_a_traceparent_is_part_of_the_trace_of_the_caller(
    collector: OtlpServer,
) -> None:
    store = MemoryStore()
    caller = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    await conversation(store, traceparent=caller)
    trace = await read_trace(store, "s1")
    await export(list(trace.spans), collector.origin)
    run = collector.named("run")
    assert run.trace_id == "0af7651916cd43dd8448eb211c80319c"
    assert run.parent_id == "b7ad6b7169203331"


async def test_no_content_is_exported_by_default(collector: OtlpServer) -> None:
    await exported_conversation(collector)
    everything = b"".join(request.body for request in collector.requests)
    for said in (b"invoice", b"paid", b"A1", SECRET.encode()):
        assert said not in everything


@pytest.mark.parametrize("value", ["true", "SPAN_ONLY", "span_and_event"])
async def test_content_is_exported_if_the_environment_enables_it(
    collector: OtlpServer, monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", value)
    await exported_conversation(collector)
    tool = collector.named("execute_tool lookup")
    assert json.loads(tool.attributes["gen_ai.tool.call.arguments"]) == {"order": "A1"}
    assert tool.attributes["gen_ai.tool.call.result"] == "order A1: the key is [redacted]"
    asked = next(span for span in collector.spans if span.name == "chat scripted")
    (message,) = json.loads(asked.attributes["gen_ai.input.messages"])
    said = {"type": "text", "content": "Where is my invoice?"}
    assert message == {"role": "user", "parts": [said]}
    assert SECRET.encode() not in b"".join(request.body for request in collector.requests)


async def test_content_is_exported_if_the_caller_enables_it_despite_the_environment(
    collector: OtlpServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "false")
    await exported_conversation(collector, content=True)
    assert "gen_ai.tool.call.result" in collector.named("execute_tool lookup").attributes


async def test_tokens_and_model_are_attributes_of_the_call(collector: OtlpServer) -> None:
    call = a_span(
        kind="llm_call",
        details={"model": "openai:gpt-5", "response_id": "resp_1"},
        tokens=Tokens(1, 100, 20, 120, 60, 5),
        cost=0.25,
    )
    await export([call], collector.origin)
    got = collector.named("chat gpt-5")
    assert got.attributes["gen_ai.provider.name"] == "openai"
    assert got.attributes["gen_ai.request.model"] == "gpt-5"
    assert got.attributes["gen_ai.response.id"] == "resp_1"
    assert got.attributes["gen_ai.usage.input_tokens"] == 100
    assert got.attributes["gen_ai.usage.output_tokens"] == 20
    assert got.attributes["gen_ai.usage.cache_read.input_tokens"] == 60
    assert got.attributes["gen_ai.usage.reasoning.output_tokens"] == 5
    assert got.attributes["ekiden.cost"] == 0.25


async def test_an_error_is_exported_by_type_and_its_text_only_on_request(
    collector: OtlpServer,
) -> None:
    failed = a_span(status="error", error=f"ValueError: no order for 山田 with {SECRET}")
    await export([failed], collector.origin)
    await export([failed], collector.origin, content=True)
    without, with_words = collector.spans
    assert (without.status, without.message) == ("ERROR", "ValueError")
    assert without.attributes["error.type"] == "ValueError"
    assert with_words.message == "ValueError: no order for 山田 with [redacted]"


async def test_an_unfinished_span_is_not_exported(collector: OtlpServer) -> None:
    report = await export([a_span(ended_at_us=None), a_span()], collector.origin)
    assert (report.sent, report.open) == (1, 1)


async def test_standard_otel_variables_are_used(
    collector: OtlpServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.origin)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-team=support")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip")
    monkeypatch.setenv("OTEL_SERVICE_NAME", "help desk")
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test")
    monkeypatch.setenv("OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT", "5")
    assert (await export([a_span()])).sent == 1
    (request,) = collector.requests
    assert request.headers["x-team"] == "support"
    assert request.headers["content-encoding"] == "gzip"
    (span,) = collector.spans
    assert span.resource["service.name"] == "help desk"
    assert span.resource["deployment.environment.name"] == "test"
    assert span.attributes["gen_ai.agent.name"] == "billi"


async def test_the_default_service_name_is_ekiden(collector: OtlpServer) -> None:
    await export([a_span()], collector.origin)
    assert collector.spans[0].resource["service.name"] == "ekiden"
    assert collector.spans[0].resource["service.version"]


async def test_nothing_is_exported_while_the_sdk_is_disabled(
    collector: OtlpServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    report = await export([a_span()], collector.origin)
    assert report == OtlpReport(is_disabled=True)
    assert not collector.requests


async def test_unsampled_traces_are_not_exported(
    collector: OtlpServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "always_off")
    report = await export([a_span()], collector.origin)
    assert (report.sent, report.problem) == (0, None)
    assert not collector.requests


async def test_a_busy_collector_is_retried(collector: OtlpServer) -> None:
    collector.answer_next(503, 429, retry_after_s=0)
    assert (await export([a_span()], collector.origin)).sent == 1
    assert len(collector.requests) == 3


async def test_a_refused_span_does_not_block_others(collector: OtlpServer) -> None:
    spans = [a_span(span_id=f"{number:016x}") for number in range(1, 5)]
    # All four, then the first two, then the first alone, which is the bad one.
    collector.answer_next(400, 400, 400)
    report = await export(spans, collector.origin)
    assert (report.sent, report.refused, report.problem) == (3, 1, None)
    assert [span.span_id[-1] for span in collector.spans] == ["2", "3", "4"]


@pytest.mark.parametrize(
    ("status", "problem"),
    [
        (401, "the collector refuses the credentials (401): see OTEL_EXPORTER_OTLP_HEADERS"),
        (404, "the collector answered 404"),
        (302, "the collector answered 302"),
        (500, "the collector answered 500"),
    ],
)
async def test_a_rejection_of_the_collector_is_reported(
    collector: OtlpServer, status: int, problem: str
) -> None:
    collector.default_status = status
    report = await export([a_span()], collector.origin)
    assert (report.sent, report.problem) == (0, problem)


async def test_an_unreachable_collector_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "0.2")
    async with OtlpServer() as gone:
        address = gone.origin
    report = await export([a_span()], address)
    assert report.problem == "the collector cannot be reached"


async def test_many_spans_are_exported_in_batches(collector: OtlpServer) -> None:
    spans = [a_span(span_id=f"{number:016x}") for number in range(1, 1026)]
    assert (await export(spans, collector.origin)).sent == 1025
    assert len(collector.requests) == 3


@pytest.mark.parametrize(
    ("given", "used"),
    [
        ("http://127.0.0.1:4318", "http://127.0.0.1:4318/v1/traces"),
        ("https://collector.example/", "https://collector.example/v1/traces"),
        ("http://localhost:4318/otlp/v1/traces", "http://localhost:4318/otlp/v1/traces"),
        (None, None),
    ],
)
def test_an_address_without_a_path_gets_the_standard_path(
    given: str | None, used: str | None
) -> None:
    assert traces_endpoint(given) == used


@each_case("given", ["collector:4318", "ftp://x/", "http://", "", "http://[::1", "http://h:x"])
def test_an_invalid_collector_address_is_refused(given: str) -> None:
    with pytest.raises(UserError, match="is not the address of a collector"):
        traces_endpoint(given)


def test_a_missing_sdk_is_reported_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    with pytest.raises(UserError, match=r"pip install 'ekiden\[otel\]'"):
        export_otlp([a_span()], "http://127.0.0.1:4318")


async def test_any_text_can_be_exported(collector: OtlpServer) -> None:
    odd = a_span(
        agent_name="客服\ud800",
        details={
            "tool": "检索🔎",
            "big": 10**30,
            "nothing": None,
            "list": ["a", 1],
            "deep": {"a": 1},
        },
        content={"arguments": {"a": "\udfff"}, "result": "x" * 50_000, "empty": ""},
    )
    assert (await export([odd], collector.origin, content=True)).sent == 1
    got = collector.named("execute_tool 检索🔎")
    assert got.attributes["gen_ai.agent.name"] == "客服?"
    assert got.attributes["ekiden.big"] == str(10**30)
    assert got.attributes["ekiden.deep"] == '{"a":1}'
    assert "ekiden.nothing" not in got.attributes
    assert len(got.attributes["gen_ai.tool.call.result"]) < 17_000
    assert "ekiden.content.empty" not in got.attributes


async def test_a_span_that_cannot_be_encoded_does_not_block_others(collector: OtlpServer) -> None:
    good = [a_span(span_id=f"{number:016x}") for number in range(1, 4)]
    ready = OtelSpans().readable(good, tops={})
    ready[1]._name = "\ud800"
    sender = OtlpSender(endpoint=collector.origin)
    try:
        result = await asyncio.to_thread(sender.send, ready)
    finally:
        sender.close()
    assert (result.sent, result.refused, result.problem) == (2, 1, None)


async def test_an_outage_is_reported_by_ekiden_not_by_the_exporter(
    collector: OtlpServer, caplog: pytest.LogCaptureFixture
) -> None:
    collector.default_status = 404
    await export([a_span()], collector.origin)
    assert not caplog.records
    # What other exporters of the program say stays.
    logging.getLogger(OTLPSpanExporter.__module__).warning("theirs")
    assert [record.message for record in caplog.records] == ["theirs"]


async def test_the_session_of_a_credential_provider_is_used(
    collector: OtlpServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    used: list[str] = []

    class Provided(requests.Session):
        def request(self, method: Any, url: Any, *args: Any, **named: Any) -> Any:
            used.append(method)
            return super().request(method, url, *args, **named)

    class Entry:
        def load(self) -> Any:
            return Provided

    monkeypatch.setenv("OTEL_PYTHON_EXPORTER_OTLP_HTTP_CREDENTIAL_PROVIDER", "mine")
    name = "opentelemetry.exporter.otlp.proto.http._common.entry_points"
    monkeypatch.setattr(name, lambda **_: [Entry()])
    assert (await export([a_span()], collector.origin)).sent == 1
    assert used == ["POST"]
    collector.default_status = 400
    report = await export([a_span()], collector.origin)
    assert report.problem == "the collector cannot be reached, or refuses"
