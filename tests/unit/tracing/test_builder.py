"""Single events, and what they add to the spans."""

from __future__ import annotations

import gc
import time
from typing import Any

import pytest

from ekiden.core.events import Event, EventType
from ekiden.tracing import Span, SpanBuilder, TraceContext, spans_of

START_US = 1_700_000_000_000_000
SAID = ({"role": "user", "content": "hi"},)


class Told:
    """Events of a session, a millisecond apart."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def __call__(self, type: EventType, agent: str = "a", **fields: Any) -> Told:
        seq = len(self.events) + 1
        at_us = START_US + seq * 1000
        fields.setdefault("details", None)
        event = Event(session_id="s", seq=seq, type=type, at_us=at_us, agent=agent, **fields)
        self.events.append(event)
        return self

    def moved(self, status: str, *moves: str, agent: str = "a", **more: Any) -> Told:
        details = {"id": "s.h1", "from": "a", "to": "b", "status": status, "moves": list(moves)}
        error = more.pop("error", None)
        return self("handoff", agent, details={**details, **more}, error=error)

    def spans(self) -> list[Span]:
        return spans_of(self.events, "s")

    def only(self, kind: str, name: str | None = None) -> Span:
        [found] = [each for each in self.spans() if each.kind == kind and name in (None, each.name)]
        return found


def begun() -> Told:
    return Told()("message", items=SAID)("agent_start")


def test_a_rollback_ends_and_marks_the_agent_span_of_the_target() -> None:
    told = begun().moved("transferring", "initiated", "validating", "transferring")
    told("agent_start", "b")("tool_call", "b", details={"tool": "t"})
    told.moved("transferring", agent="b", compensation="k", attempt=1, error="ValueError: x")
    told.moved("transferring", agent="b", compensation="k", attempt=2)
    told.moved(
        "rolled_back", "rolled_back", code="TIMEOUT", undoes=[3, 7], keeps=[5], error="too slow"
    )
    told("llm_call")
    handoff, target = told.only("handoff"), told.only("agent", "b")
    assert handoff.details["undone"] == 8
    assert handoff.details["moves"] == ["initiated", "validating", "transferring", "rolled_back"]
    assert handoff.details["compensations"] == [
        {"key": "k", "attempt": 1, "failed": True},
        {"key": "k", "attempt": 2},
    ]
    assert handoff.content["compensation_errors"] == ["ValueError: x"]
    assert (target.status, target.error, target.details["undone"]) == ("error", "too slow", 8)
    assert not told.only("tool_call").is_undone
    assert [each.name for each in told.spans() if each.kind == "agent"] == ["a", "b", "a"]


def test_a_refused_handoff_is_an_error_below_its_requester() -> None:
    told = begun().moved("failed", "initiated", "failed", code="DECLINED", error="no")
    handoff = told.only("handoff")
    assert (handoff.status, handoff.error, handoff.details["code"]) == ("error", "no", "DECLINED")
    assert handoff.parent_id == told.only("agent").span_id


def test_a_handoff_span_starts_at_its_request() -> None:
    told = begun().moved("transferring", "transferring", at={"initiated": START_US + 2500})
    assert told.only("handoff").started_at_us == START_US + 2500


def test_an_accepted_handoff_can_start_a_run_and_a_refused_one_cannot() -> None:
    told = Told().moved("transferring", "transferring", begins_run=True)
    assert told.only("handoff").parent_id == told.only("run").span_id
    refused = Told().moved("failed", "failed", begins_run=True, error="no")
    assert [each.kind for each in refused.spans()] == ["session", "handoff"]


def test_handoffs_of_earlier_versions_are_read() -> None:
    told = begun()("handoff", details={"from": "a", "to": "b", "status": "completed"})
    told("llm_call", "b")
    assert told.only("handoff").details["moves"] == ["completed"]
    assert told.only("handoff").links == (told.only("agent", "b").span_id,)


def test_a_handoff_to_a_router_links_to_its_route() -> None:
    told = begun().moved("transferring", "transferring")
    told("route", "router", step="1.1.r", details={"agent": "c", "usage": {"input_tokens": 3}})
    told("agent_start", "c")
    assert told.only("handoff").links == (told.only("route").span_id,)
    assert told.only("route").tokens.input == 3


def test_a_realtime_conversation_ends_with_its_last_message() -> None:
    told = Told()("message", items=SAID)
    told("message", items=({"role": "assistant", "content": "hello"},))
    assert len([each for each in told.spans() if each.kind == "run"]) == 1
    assert told.only("run").ended_at_us is not None


@pytest.mark.parametrize(
    ("details", "error"),
    [
        ({"outcome": "out_of_budget", "limit": "turns"}, "out of budget: turns"),
        ({"outcome": "cancelled"}, None),
        ({"outcome": "refused", "reason": "no"}, None),
    ],
)
def test_the_outcome_of_a_run_is_recorded(details: dict[str, Any], error: str | None) -> None:
    told = begun()("agent_complete", details=details)
    for kind in ("run", "agent"):
        span = told.only(kind)
        assert span.details["outcome"] == details["outcome"]
        assert span.error == error
        assert span.status == ("ok" if error is None else "error")


def test_an_expired_question_to_people_is_an_error() -> None:
    told = begun()("inbox", details={"item": "i", "change": "posted", "kind": "approval"})
    told("agent_complete", details={"outcome": "waiting", "reason": "person:x"})
    told("inbox", details={"item": "i", "status": "expired"})
    assert told.only("inbox").status == "error"
    assert told.only("run").status == "ok"


def test_a_notice_to_people_is_not_waited_for() -> None:
    told = begun()("inbox", details={"item": "i", "kind": "escalation"})
    assert told.only("inbox").ended_at_us is not None


def test_a_retried_task_is_one_span_and_a_skipped_one_has_its_own() -> None:
    told = begun()("task", details={"phase": "decomposed", "tasks": []})
    told("task", details={"phase": "started", "task_id": "t1", "agent": "b"})
    told("task", details={"phase": "started", "task_id": "t1", "agent": "b", "attempt": 2})
    told("task", details={"phase": "finished", "task_id": "t1", "agent": "b", "success": True})
    told("task", details={"phase": "finished", "task_id": "t2", "success": False}, error="skipped")
    told("task", details={"phase": "aggregating"})("task", details={"phase": "completed"})
    assert told.only("task", "t1: b").details["attempt"] == 2
    assert told.only("task", "t2: ?").error == "skipped"
    assert told.only("task", "aggregate").ended_at_us is not None
    assert told.only("task", "plan").ended_at_us == START_US + 9000


def test_a_guardrail_that_blocks_is_an_error_and_a_warning_is_not() -> None:
    told = begun()("guardrail", details={"guardrail": "x", "result": "failed"}, items=SAID)
    told("guardrail", details={"guardrail": "y", "result": "warned"})
    assert told.only("guardrail", "x").status == "error"
    assert told.only("guardrail", "y").status == "ok"


def test_calls_of_code_have_arguments_and_external_state_has_no_agent() -> None:
    call = {"type": "function_call", "call_id": "c", "name": "t", "arguments": '{"a":1}'}
    output = {"type": "function_call_output", "call_id": "c", "output": "ok"}
    told = begun()("tool_call", details={"tool": "t"}, items=(call, output))
    told("agent_complete")("message", details={"state": {"set": {}}, "by": "mira"})
    assert told.only("tool_call").content == {"arguments": '{"a":1}', "result": "ok"}
    assert told.only("message", "state").parent_id == told.spans()[0].span_id


def test_clocks_that_go_back_keep_spans_in_order() -> None:
    told = begun()("llm_call", duration_us=10**12)
    told.events[1].at_us = 0
    call, stay = told.only("llm_call"), told.only("agent")
    assert call.started_at_us == stay.started_at_us >= told.spans()[0].started_at_us


def test_started_and_ended_spans_are_streamed_and_released() -> None:
    builder = SpanBuilder("s", TraceContext(trace_id="0" * 32), is_live=True)
    seen = []
    for event in begun()("llm_call")("agent_complete").events:
        builder.add(event)
        seen += [(has_begun, each.kind) for has_begun, each in builder.take()]
    assert seen == [
        (True, "run"), (True, "message"), (False, "message"), (True, "agent"),
        (True, "llm_call"), (False, "llm_call"), (False, "agent"), (False, "run"),
    ]  # fmt: skip
    assert len(builder.spans()) == 1


@pytest.mark.slow
def test_span_building_takes_linear_time() -> None:
    """Ten times as many events may take at most twenty times as long: a square would take 100."""

    def took(runs: int) -> float:
        told = Told()
        for number in range(runs):
            told("message", items=SAID)("agent_start").moved("transferring", "transferring")
            told("agent_start", "b")
            first = len(told.events) - 1
            told.moved("rolled_back", "rolled_back", undoes=[1 if number % 2 else first, 10**9])
            told("agent_complete")
            told.events[-2].details["id"] = told.events[-4].details["id"] = f"h{number}"  # type: ignore[index]
        best = float("inf")
        for _ in range(3):
            gc.collect()
            began = time.process_time()
            told.spans()
            best = min(best, time.process_time() - began)
        return best

    assert took(2000) < 20 * took(200) + 0.05
