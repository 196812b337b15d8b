"""Spans in the words of the GenAI conventions."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ekiden.tracing.otel_conventions import as_json, describe_span, genai_messages, provider_of
from tests.support.cases import each_case
from tests.unit.tracing.otel_team import SECRET, a_span


@each_case(
    ("model", "provider", "name"),
    [
        ("openai:gpt-5", "openai", "gpt-5"),
        ("google:gemini-3", "gcp.gemini", "gemini-3"),
        ("house:model", "house", "model"),
        ("gpt-5-2026-01-01", "openai", "gpt-5-2026-01-01"),
        ("claude-opus-5", "anthropic", "claude-opus-5"),
        ("qwen3:8b", "qwen3", "8b"),
        ("my model: v2", "_OTHER", "my model: v2"),
        ("", "_OTHER", ""),
    ],
)
def test_the_provider_has_its_name_in_the_otel_conventions(
    model: str, provider: str, name: str
) -> None:
    assert provider_of(model) == (provider, name)


@each_case(
    ("kind", "details", "name"),
    [
        ("agent", {}, "invoke_agent billing"),
        ("llm_call", {}, "chat"),
        ("tool_call", {}, "execute_tool lookup"),
        ("handoff", {"from": "a", "to": "b"}, "execute_tool transfer_to_b"),
        ("handoff", {}, "execute_tool transfer"),
        ("guardrail", {"guardrail": "no_secrets"}, "guardrail no_secrets"),
        ("guardrail", {}, "guardrail"),
        ("tool_confirmation", {"tool": "pay"}, "confirm pay"),
        ("tool_confirmation", {}, "confirm"),
        ("run", {}, "run"),
        ("route", {}, "route"),
        ("inbox", {}, "inbox"),
        ("message", {}, "message"),
    ],
)
def test_span_names_have_low_cardinality(kind: Any, details: dict[str, Any], name: str) -> None:
    described = describe_span(a_span(kind=kind, details=details))
    assert described.name == name
    assert described.is_client == (kind == "llm_call")


def test_without_content_only_facts_are_exported() -> None:
    span = a_span(
        content={"arguments": "private", "result": "private", "reason": "private"},
        status="error",
        error="private words",
    )
    described = describe_span(span)
    assert "private" not in str(described)
    assert described.attributes["error.type"] == "tool.failed"


@pytest.mark.parametrize(
    ("changes", "kind"),
    [
        ({"details": {"code": "handoff.refused"}, "error": "x"}, "handoff.refused"),
        ({"kind": "run", "details": {}, "error": "words"}, "_OTHER"),
        ({"kind": "handoff", "details": {}, "error": None}, "handoff.failed"),
        ({"kind": "tool_call", "error": "httpx.ReadTimeout: slow"}, "httpx.ReadTimeout"),
    ],
)
def test_error_types_have_low_cardinality(changes: dict[str, Any], kind: str) -> None:
    assert describe_span(a_span(status="error", **changes)).error_type == kind


def test_facts_become_attributes_of_valid_types() -> None:
    details = {
        "approved": True,
        "score": 0.5,
        "count": 3,
        "huge": -(2**70),
        "names": ["a", "b"],
        "parts": [{"a": 1}],
        "empty": [],
        "none": None,
        "odd": {1, 2},
        "key": f"token {SECRET}",
    }
    found = describe_span(a_span(kind="task", details=details)).attributes
    assert found["ekiden.approved"] is True
    assert (found["ekiden.score"], found["ekiden.count"]) == (0.5, 3)
    assert found["ekiden.huge"] == str(-(2**70))
    assert found["ekiden.names"] == ("a", "b")
    assert found["ekiden.parts"] == '[{"a":1}]'
    assert found["ekiden.odd"] == "set"
    assert found["ekiden.key"] == "token [redacted]"
    assert "ekiden.empty" not in found
    assert "ekiden.none" not in found


def test_content_without_a_convention_has_an_ekiden_attribute() -> None:
    span = a_span(kind="agent", content={"input": 7, "reason": "because", "nothing": None})
    found = describe_span(span, content=True).attributes
    assert found["ekiden.content.input"] == "7"
    assert found["ekiden.content.reason"] == "because"
    assert "ekiden.content.nothing" not in found


def test_items_are_converted_to_messages_with_parts() -> None:
    items = [
        {"role": "user", "content": "hi"},
        {"role": "user", "content": [{"type": "input_image"}, {"text": "see"}, "odd"]},
        {"type": "function_call", "call_id": "c", "name": "f", "arguments": '{"a":1}'},
        {"type": "function_call_output", "call_id": "c", "output": [{"type": "text"}]},
        {"type": "function_call_output", "call_id": "d"},
        {"type": "reasoning"},
        {"role": "user", "content": None},
        "odd",
    ]
    assert genai_messages(items, str.upper) == [
        {"role": "user", "parts": [{"type": "text", "content": "HI"}]},
        {"role": "user", "parts": [{"type": "input_image"}, {"type": "text", "content": "SEE"}]},
        {
            "role": "assistant",
            "parts": [{"type": "tool_call", "id": "c", "name": "f", "arguments": '{"A":1}'}],
        },
        {
            "role": "tool",
            "parts": [{"type": "tool_call_response", "id": "c", "result": '[{"TYPE":"TEXT"}]'}],
        },
        {"role": "tool", "parts": [{"type": "tool_call_response", "id": "d", "result": None}]},
    ]
    assert genai_messages("hi", str) == [
        {"role": "user", "parts": [{"type": "text", "content": "hi"}]}
    ]
    assert genai_messages({"role": "user", "content": "hi"}, str) == genai_messages("hi", str)
    assert genai_messages(7, str) == []


def test_only_the_last_of_many_messages_are_exported_as_valid_json() -> None:
    items = [{"role": "user", "content": f"{number} " + "x" * 3_000} for number in range(20)]
    items.append({"role": "user", "content": f"{SECRET} " + "y" * 90_000})
    span = a_span(kind="llm_call", content={"input": items})
    text = describe_span(span, content=True).attributes["gen_ai.input.messages"]
    assert isinstance(text, str)
    assert len(text) <= 16_000
    messages = json.loads(text)
    assert 3 <= len(messages) < 20
    assert messages[-1]["parts"][0]["content"].startswith("[redacted] yyy")
    assert as_json([{"a": "x" * 100}], 10) == "[]"
