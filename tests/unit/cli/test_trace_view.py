"""Traces as people see them."""

from __future__ import annotations

from typing import Any

import pytest
from rich.cells import cell_len

from ekiden.api.local.sessions import handoff_chain
from ekiden.api.sessions import SessionChain
from ekiden.cli.views.sessions import chain_rows, print_chain
from ekiden.cli.views.traces import (
    FINE,
    PLAIN,
    duration_text,
    error_lines,
    gist,
    label,
    money_text,
    print_errors,
    print_trace,
    tree_lines,
)
from ekiden.core.agent import Agent
from ekiden.handoff import person
from ekiden.runtime import Runner
from ekiden.sessions import Session
from ekiden.storage.memory import MemoryStore
from ekiden.testing import ScriptedModel, transfer
from ekiden.tracing import Span, SpanKind, Tokens, Trace
from tests.support.cases import each_case

START_US = 1_700_000_000_000_000
NUMBER = iter(range(1, 10_000))


def a_span(kind: SpanKind, name: str, parent: Span | None = None, **fields: Any) -> Span:
    values: dict[str, Any] = {
        "trace_id": "0" * 32,
        "span_id": f"{next(NUMBER):016x}",
        "parent_id": None if parent is None else parent.span_id,
        "session_id": "s1",
        "agent_name": "客服",
        "correlation_id": "s1",
        "started_at_us": START_US,
        "ended_at_us": START_US + 1500,
    }
    return Span(kind=kind, name=name, **{**values, **fields})


def trace_of(*spans: Span) -> Trace:
    return Trace(trace_id="0" * 32, session_id="s1", spans=spans)


def a_trace() -> Trace:
    session = a_span("session", "s1")
    run = a_span("run", "run 1", session)
    stay = a_span("agent", "客服代理", run)
    return trace_of(
        session,
        run,
        stay,
        a_span(
            "llm_call", "gpt", stay, tokens=Tokens(1, 1000, 234, 1234), cost=0.5,
            content={"output": [{"role": "assistant", "content": "こんにちは"}]},
        ),
        a_span(
            "tool_call", "lookup", stay, status="error", error="ValueError: \x1b[31mno\nsuch",
            content={"arguments": '{"a": 1}', "result": "x"},
        ),
        a_span(
            "handoff", "客服代理 → b", run, details={"status": "rolled_back", "policy": "forced"}
        ),
        a_span("inbox", "approval for boss", run, status="waiting", ended_at_us=None),
    )  # fmt: skip


def test_columns_are_aligned_for_any_script() -> None:
    lines = [line.text for line in tree_lines(a_trace(), FINE)]
    assert "◆ s1" in lines[0]
    places = {cell_len(line[: line.index("1.5 ms")]) for line in lines if "1.5 ms" in line}
    assert len(places) == 1
    assert "1,234 tok  0.500000" in lines[3]
    assert lines[3].endswith("こんにちは")
    assert "1,234 tok" in lines[0], "what is below is counted in"
    assert "(rolled back) (forced)" in next(line for line in lines if "⇒" in line)
    assert "waiting" in lines[-1]


def test_a_span_is_one_line_of_the_terminal() -> None:
    whole = [line.text for line in tree_lines(a_trace(), FINE)]
    for look in (FINE, PLAIN):
        narrow = [line.text for line in tree_lines(a_trace(), look, room=60)]
        assert len(narrow) == len(whole)
        assert all(cell_len(line) <= 60 for line in narrow)
        assert any(line.endswith(look.cut) for line in narrow)


def test_plain_drawings_are_ascii() -> None:
    for span in a_trace().spans:
        assert label(span, PLAIN).replace("客服代理", "").isascii()
    lines = [line.text for line in tree_lines(a_trace(), PLAIN)]
    assert "`- [run] run 1" in lines[1]
    assert "[handoff] 客服代理 -> b" in "".join(lines)


def test_errors_and_waits_come_first_and_control_characters_are_escaped(
    capsys: pytest.CaptureFixture[str],
) -> None:
    print_trace(a_trace())
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert out.index("errors") < out.index("waiting") < out.index("▶ run 1")
    [error] = error_lines(a_trace(), FINE)
    assert "客服: tool_call lookup: ValueError:" in error.text
    print_errors(a_trace(), plain=True)
    assert capsys.readouterr().out.startswith("! ")
    print_errors(trace_of(a_span("session", "s1")))
    assert capsys.readouterr().out == "no errors\n"


def test_a_terminal_gets_the_same_lines(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ekiden.cli.views.traces.is_terminal", lambda: True)
    print_trace(a_trace())
    assert "● 客服代理" in capsys.readouterr().out


@each_case(
    ("span", "shown"),
    [
        (a_span("tool_call", "t", content={"arguments": "{}", "result": {"a": 1}}), '{"a":1}'),
        (a_span("message", "ask b", content={"asks": {"subject": "why?"}}), "why?"),
        (a_span("route", "b", details={"method": "rule", "confidence": 40}), "rule 40 %"),
        (
            a_span("tool_confirmation", "t", details={"approved": True, "by": "mira"}),
            "yes, by mira",
        ),
        (
            a_span(
                "inbox",
                "approval",
                details={"answer": {"by": "mira"}},
                content={"subject": "ok?", "answer": {"choice": "yes"}},
            ),
            "ok? → yes (mira)",
        ),
        (a_span("handoff", "a → b", content={"reason": "tired"}), "tired"),
        (a_span("guardrail", "g", status="error", details={"result": "failed"}), "✗ failed"),
        (a_span("run", "run 1", content={"reason": "x" * 500}), "x" * 100 + "…"),
        (
            a_span(
                "llm_call",
                "m",
                content={
                    "output": [
                        {"type": "function_call", "name": "f", "arguments": '{"a":1}'},
                        {"type": "function_call_output", "output": "o"},
                    ]
                },
            ),
            'f{"a":1}; o',
        ),
    ],
)
def test_the_summary_of_a_span(span: Span, shown: str) -> None:
    assert gist(span, FINE) == shown


def test_flags_show_undone_failed_and_abandoned_spans() -> None:
    assert "(undone)" in label(a_span("tool_call", "t", details={"undone": 7}), FINE)
    assert "(resumed)" in label(a_span("run", "run 1", details={"resumes": "x"}), FINE)
    assert "(attempt 2)" in label(a_span("task", "t", details={"attempt": 2}), FINE)
    assert "(attempt 3)" in label(a_span("llm_call", "m", details={"attempt": 3}), FINE)
    assert "(abandoned)" in label(a_span("run", "run 1", details={"outcome": "abandoned"}), FINE)


@each_case(
    ("microseconds", "text"),
    [
        (7, "7 us"),
        (7_000, "7.0 ms"),
        (70_000, "70 ms"),
        (7_000_000, "7.0 s"),
        (420_000_000, "7.0 min"),
        (25_200_000_000, "7.0 h"),
        (604_800_000_000, "7.0 d"),
    ],
)
def test_durations_from_microseconds_to_days(microseconds: int, text: str) -> None:
    assert duration_text(microseconds) == text


def test_an_unknown_cost_is_a_question_mark() -> None:
    assert money_text(None, 2) == "cost ?"
    assert money_text(None, 0) == ""
    assert money_text(0.25, 1) == "cost 0.250000 + ?"
    assert money_text(1234.5, 0) == "cost 1,234.50"


def test_the_chain_shows_who_requested_a_handoff_and_its_error() -> None:
    told = {
        "timestamp": 0.0, "from": "a", "to": "b", "status": "rolled_back", "policy": "forced",
        "by": {"kind": "person", "name": "mira"}, "reason": "tired", "code": "TIMEOUT",
        "error": "too slow", "duration_ms": 1500.0, "rewound": True,
    }  # fmt: skip
    [row] = chain_rows(SessionChain(session_id="s", chain=(), handoffs=[told]))
    assert row[1:] == (
        "a", "b", "rolled_back", "forced", "1.5 s",
        "person mira: tired; TIMEOUT: too slow; undone by a rewind",
    )  # fmt: skip


async def test_the_chain_shows_what_a_session_waits_for(
    capsys: pytest.CaptureFixture[str],
) -> None:
    store = MemoryStore()
    model = ScriptedModel([transfer("person:support", reason="angry")])
    session = Session("s", store=store)
    await Runner.run(Agent("a", model=model, handoffs=[person("support")]), "hi", session=session)
    found = handoff_chain(await session.row(), await session.events())
    print_chain(found)
    first, *_, last = capsys.readouterr().out.splitlines()
    assert (first, last) == ("s: user → a → person:support", "it waits for person:support")
    [handoff] = found.handoffs
    assert (handoff["policy"], handoff["by"]) == ("graceful", {"kind": "model"})
    assert handoff["duration_ms"] >= 0
