"""Agents, handoffs, routes and traces that a server tells of, as the views want them."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ekiden.app.records.handoffs import HandoffDetails
    from ekiden.app.records.presence import Presence
    from ekiden.capabilities import Match
    from ekiden.handoff.records import HandoffRecord
    from ekiden.routing.decision import RouteDecision, Score
    from ekiden.tracing import Span, Trace

_TOKENS = {
    "requests": "requests",
    "input": "input_tokens",
    "output": "output_tokens",
    "total": "total_tokens",
    "cached": "cached_tokens",
    "reasoning": "reasoning_tokens",
}


def handoff_of(raw: Mapping[str, Any]) -> HandoffRecord:
    """A handoff."""
    from ekiden.core.handoff_record import Actor
    from ekiden.handoff.records import HandoffRecord, Move

    words = ("reason", "code", "error", "trigger", "request", "filter", "evaluation")
    return HandoffRecord(
        id=raw["id"],
        session_id=raw["session_id"],
        source=raw["source"],
        target=raw["target"],
        status=raw["status"],
        moves=tuple(
            Move(status=move["status"], at_us=_us(move["at"]), seq=move["seq"])
            for move in raw["moves"]
        ),
        by=Actor(**raw["by"]),
        policy=raw["policy"],
        **{name: raw[name] for name in words if name in raw},
        compensated=tuple(raw.get("compensated", ())),
        not_compensated=tuple(raw.get("not_compensated", ())),
        rollback_attempts=raw.get("compensations_failed", 0),
        call_id=raw.get("call_id"),
    )


def handoff_details_of(raw: Mapping[str, Any]) -> HandoffDetails:
    """Everything about a handoff."""
    from ekiden.app.records.handoffs import HandoffDetails
    from ekiden.storage.base import SessionRow

    row = SessionRow(
        id=raw["session_id"],
        agent=raw["agent"],
        status="idle",
        outcome=None,
        user_id=None,
        meta={"task_id": raw["task_id"], "correlation_id": raw["correlation_id"]},
        cursor={},
        variables={},
        seq=0,
        epoch=0,
        owner=None,
        created_at_us=0,
        updated_at_us=0,
    )
    return HandoffDetails(
        record=handoff_of(raw),
        row=row,
        words=raw["words"],
        view=None if raw["view"] is None else _view(raw["view"]),
        audit=raw["audit"],
    )


def _view(raw: Mapping[str, Any]) -> Any:
    """A filter's report, whose items are not told, only what they are labelled with."""
    return SimpleNamespace(
        rows=[SimpleNamespace(**row) for row in raw["rows"]],
        new=[SimpleNamespace(**row) for row in raw["new"]],
        counts=raw["counts"],
        chars_before=raw["chars_before"],
        chars_after=raw["chars_after"],
    )


def presence_of(raw: Mapping[str, Any]) -> Presence:
    """The sessions of an agent, and its waits."""
    from ekiden.app.records.presence import Presence
    from ekiden.core.messages import BlockingContext

    return Presence(
        agent=raw["agent"],
        known=raw["known"],
        is_router=raw["router"],
        idle=raw["idle"],
        ready=raw["ready"],
        waiting=raw["waiting"],
        running={each["session_id"]: each["owner"] for each in raw["running"]},
        waits=[
            BlockingContext(**{**each, "waiting_for": tuple(each["waiting_for"])})
            for each in raw["waits"]
        ],
    )


def match_of(raw: Mapping[str, Any]) -> Match:
    """How good an agent is for what is required."""
    from ekiden.capabilities import Fit, Match

    return Match(
        agent=raw["agent"],
        score=raw["score"],
        fits=tuple(Fit(**each) for each in raw["fits"]),
        missing=tuple(raw["missing"]),
        available=raw["available"],
        load=raw["load"],
    )


def decision_of(raw: Mapping[str, Any]) -> RouteDecision:
    """Who would get a request, and why."""
    from ekiden.routing.decision import RouteDecision, StageResult

    own = ("agent", "method", "confidence", "reason", "strategy", "cause", "elapsed_ms")
    said = ("method", "agent", "confidence", "sure", "reason", "elapsed_ms")
    return RouteDecision(
        **{name: raw[name] for name in own},
        matched_keywords=tuple(raw["matched_keywords"]),
        matched_patterns=tuple(raw["matched_patterns"]),
        candidates=tuple(_score(each) for each in raw["candidates"] if each["method"] != "none"),
        stages=tuple(
            StageResult(**{name: stage[name] for name in said}) for stage in raw["stages"]
        ),
    )


def _score(raw: Mapping[str, Any]) -> Score:
    from ekiden.routing.decision import Score

    return Score(
        agent=raw["agent"],
        score=raw["score"],
        confidence=raw["confidence"],
        method=raw["method"],
        keywords=tuple(raw.get("matched_keywords", ())),
        patterns=tuple(raw.get("matched_patterns", ())),
    )


def trace_of(raw: Mapping[str, Any]) -> Trace:
    """A trace as a tree."""
    from ekiden.tracing import Trace

    return Trace(
        trace_id=raw["trace_id"],
        session_id=raw["session_id"],
        spans=[_span(each) for each in raw["spans"]],
    )


def _span(raw: Mapping[str, Any]) -> Span:
    from ekiden.tracing import Span
    from ekiden.tracing.spans import Tokens

    plain = ("trace_id", "span_id", "parent_id", "kind", "name", "session_id", "correlation_id")
    more = ("status", "error", "details", "content", "cost")
    told = raw.get("tokens") or {}
    ended = raw["ended_at"]
    return Span(
        **{name: raw[name] for name in plain},
        **{name: raw[name] for name in more if name in raw},
        agent_name=raw.get("agent_name"),
        started_at_us=_us(raw["started_at"]),
        ended_at_us=None if ended is None else _us(ended),
        tokens=Tokens(**{name: told.get(key, 0) for name, key in _TOKENS.items()}),
        links=tuple(raw.get("links", ())),
    )


def _us(seconds: float) -> int:
    return round(seconds * 1e6)
