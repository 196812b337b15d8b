"""Whatever events a session has, its spans are a well-formed tree, and stay what they are."""

from __future__ import annotations

from random import Random
from typing import Any, get_args

from hypothesis import given, settings, strategies as st

from ekiden.core.events import Event, EventType
from ekiden.tracing import Span, Trace, for_export, spans_of
from tests.support.examples import examples

AGENTS = ["triage", "orders", "客服", "router"]
IDS = ["h1", "h2", "m1", "m2", "i1", "t1", "t2"]
STATUSES = ["transferring", "completed", "failed", "rolled_back", "answered", "expired"]
ODD: list[Any] = [None, True, -1, 7, "", "x", [1, 2], [3], {"a": 1}, {}]
MOVES = ["initiated", "validating", "transferring", "completed", "rolled_back"]
ITEMS: list[dict[str, Any]] = [
    {"role": "user", "content": "hello"},
    {"role": "assistant", "content": "hi"},
    {"type": "function_call", "call_id": "c1", "name": "t", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "c1", "output": "ok"},
]
TYPES = get_args(EventType)


def _details(dice: Random) -> dict[str, Any]:
    question = {
        "id": dice.choice(IDS),
        "to": dice.choice(AGENTS),
        "state": dice.choice(STATUSES),
        "session": dice.choice(["s2", "s3"]),
    }
    made: dict[str, Any] = {
        "id": dice.choice(IDS),
        "from": dice.choice(AGENTS),
        "to": dice.choice(AGENTS),
        "status": dice.choice(STATUSES),
        "moves": dice.sample(MOVES, dice.randint(0, 4)),
        "undoes": [dice.randint(-1, 40), dice.randint(-1, 40)],
        "keeps": [dice.randint(0, 40)],
        "begins_run": dice.choice([True, False]),
        "compensation": dice.choice(IDS),
        "at": {"initiated": dice.randint(0, 10**9)},
        "outcome": dice.choice(["waiting", "failed", "cancelled", "out_of_budget", "refused"]),
        "reason": "person:people",
        "asks": question,
        "tells": question,
        "answer": question,
        "item": dice.choice(IDS),
        "kind": dice.choice(["approval", "handoff", "escalation"]),
        "change": "posted",
        "phase": dice.choice(["decomposed", "started", "finished", "aggregating", "completed"]),
        "task_id": dice.choice(IDS),
        "success": dice.choice([True, False]),
        "rewound": dice.randint(0, 40),
        "closes": 1,
        "state": {"set": {}},
        "by": "mira",
        "tool": "lookup",
        "result": "failed",
        "model": "gpt",
        "usage": {"requests": 1, "input_tokens": dice.choice([3, -1, "x"]), "cost": 0.5},
        "private": True,
    }
    chosen = dice.sample(list(made), dice.randint(0, 5))
    return {name: made[name] if dice.random() < 0.9 else dice.choice(ODD) for name in chosen}


def session_of(seed: int) -> list[Event]:
    """The events of a session, as strange as an import or another version could make them."""
    dice = Random(seed)
    return [
        Event(
            session_id="s1",
            seq=seq,
            type=dice.choice(TYPES),
            at_us=dice.randint(0, 10**9),
            agent=dice.choice([*AGENTS, None]),
            step=dice.choice([None, None, "1.1.m", "0.1.added", "0.2.popped"]),
            duration_us=dice.choice([None, -3, 0, dice.randint(0, 10**9)]),
            details=_details(dice) if dice.random() < 0.8 else None,
            items=tuple(dice.choice(ITEMS) for _ in range(dice.choice([0, 0, 1, 2]))),
            error=dice.choice([None, None, "ValueError: no"]),
        )
        for seq in range(1, dice.randint(0, 40) + 1)
    ]


sessions = st.integers(0, 2**32).map(session_of)
EXAMPLES = settings(max_examples=examples(150), deadline=None)


def check(spans: list[Span]) -> None:
    """The spans are a tree in order."""
    by_id = {span.span_id: span for span in spans}
    assert len(by_id) == len(spans), "ids are unique"
    assert spans[0].parent_id is None
    seen: set[str] = set()
    for span in spans:
        assert (len(span.span_id), len(span.trace_id)) == (16, 32)
        if span is not spans[0]:
            assert span.parent_id in seen, "parents exist, and come first"
            assert span.started_at_us >= by_id[span.parent_id or ""].started_at_us
        assert span.ended_at_us is None or span.ended_at_us >= span.started_at_us
        assert span.status in ("ok", "error", "waiting")
        assert set(span.links) == set(span.links) - {span.span_id}
        if span.status == "waiting":
            assert span.ended_at_us is None
        seen.add(span.span_id)


@EXAMPLES
@given(sessions)
def test_spans_are_a_tree_with_unique_ids_and_ordered_times(events: list[Event]) -> None:
    spans = spans_of(events, "s1")
    check(spans)
    trace = Trace(trace_id=spans[0].trace_id, session_id="s1", spans=spans)
    assert len(list(trace.nodes())) == len(spans)
    assert trace.root.tokens.requests == sum(span.tokens.requests for span in spans)
    trace.to_json()


@EXAMPLES
@given(sessions, st.integers(0, 40))
def test_later_events_change_no_id_parent_or_start_of_a_span(events: list[Event], cut: int) -> None:
    before = spans_of(events[:cut], "s1")
    check(before)
    after = {span.span_id: span for span in spans_of(events, "s1")}
    for span in before[1:] if cut == 0 or not events else before:
        later = after[span.span_id]
        assert (later.parent_id, later.kind, later.started_at_us, later.first_seq) == (
            span.parent_id,
            span.kind,
            span.started_at_us,
            span.first_seq,
        )


@EXAMPLES
@given(sessions)
def test_an_export_without_content_has_no_texts(events: list[Event]) -> None:
    for event in events:
        event.items = tuple({**item, "content": "SECRET"} for item in event.items)
        if event.details is not None:
            event.details = {**event.details, "summary": "SECRET", "message": "SECRET"}
            if event.details.get("outcome") != "waiting":
                event.details["reason"] = "SECRET"
    spans = for_export(spans_of(events, "s1"))
    check(spans)
    assert all("SECRET" not in str(span.to_json()) for span in spans)


@EXAMPLES
@given(sessions)
def test_a_private_run_has_no_content_in_its_spans(events: list[Event]) -> None:
    for event in events:
        event.details = {**(event.details or {}), "private": True}
    for span in spans_of(events, "s1"):
        assert not span.content
