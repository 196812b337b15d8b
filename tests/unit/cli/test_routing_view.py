"""Decisions as people read them."""

from __future__ import annotations

from typing import Any

import pytest

from ekiden.api.agents import RouteAnalysis, RouteScore, RouteStage, StageScore
from ekiden.cli.transcript import is_news, reason_pairs, route_line, score_rows
from tests.support.cases import each_case


@each_case(
    ("details", "line"),
    [
        ({"agent": "debugger", "method": "rule", "confidence": 90}, "rule-match → debugger, 90 %"),
        ({"agent": "billing", "method": "semantic", "confidence": 83}, "semantic → billing, 83 %"),
        ({"agent": "会计", "method": "llm", "confidence": 70.4}, "llm → 会计, 70 %"),
        ({"agent": "orders", "method": "named", "confidence": 100}, "named → orders"),
        ({"agent": "reception", "method": "default", "confidence": 0}, "default → reception"),
        ({"agent": "orders", "method": "sticky", "confidence": 100}, "kept → orders"),
        (
            {"agent": "b", "method": "rule", "confidence": 5, "cause": "gave_up"},
            "rule-match → b, 5 % (the previous agent gave up)",
        ),
        (
            {"agent": "b", "method": "rule", "confidence": 95, "cause": "switched"},
            "rule-match → b, 95 % (the subject changed)",
        ),
        ({"agent": None, "method": "none", "reason": "no keyword"}, "no match: no keyword"),
    ],
)
def test_a_decision_is_one_line(details: dict[str, Any], line: str) -> None:
    assert route_line(details) == line


@pytest.mark.parametrize("details", [{}, {"agent": None}, {"method": 7}, {"agent": ""}])
def test_a_line_is_made_from_incomplete_details(details: dict[str, Any]) -> None:
    assert route_line(details) == "no match"


def test_a_decision_without_a_method_still_names_the_agent() -> None:
    assert route_line({"agent": "a", "confidence": "high"}) == "route → a"


def test_a_conversation_that_stays_with_its_agent_is_not_printed() -> None:
    assert not is_news({"method": "sticky", "agent": "a"})
    assert is_news({"method": "rule", "agent": "a"})


def route(**given: Any) -> RouteAnalysis:
    usual: dict[str, Any] = {
        "agent": None, "method": "none", "confidence": 0, "matched_keywords": (),
        "matched_patterns": (), "candidates": (), "reason": "", "elapsed_ms": 1.234,
        "strategy": "hybrid", "cause": "new", "stages": (),
    }  # fmt: skip
    return RouteAnalysis(**(usual | given))


def stage(method: Any, agent: str | None, confidence: int, **given: Any) -> RouteStage:
    usual: dict[str, Any] = {"sure": False, "reason": "", "elapsed_ms": 0.1, "candidates": ()}
    return RouteStage(method=method, agent=agent, confidence=confidence, **(usual | given))


def candidate(agent: str, method: Any = "none", score: float = 0) -> RouteScore:
    return RouteScore(agent=agent, score=score, confidence=int(score), method=method, matches=())


def test_the_analysis_has_every_stage_and_every_score() -> None:
    rule = StageScore(
        agent="debugger",
        score=24,
        confidence=24,
        method="rule",
        matched_keywords=("报错",),
        matched_patterns=("error|fail",),
    )
    near = StageScore(agent="coder", score=0.8731, confidence=87, method="semantic")
    found = route(
        agent="coder",
        method="semantic",
        confidence=87,
        reason="nearest to its examples",
        matched_keywords=("报错",),
        matched_patterns=("error|fail",),
        candidates=[candidate(each) for each in ("coder", "writer", "debugger")],
        stages=(
            stage("rule", "debugger", 24, reason="below 80 %", candidates=(rule,)),
            stage("semantic", "coder", 87, sure=True, reason="near", candidates=(near,)),
        ),
    )
    assert reason_pairs(found) == [
        ("because", "nearest to its examples"),
        ("keywords", "报错"),
        ("patterns", "error|fail"),
        ("stage rule", "debugger, 24 %: below 80 %"),
        ("stage semantic", "coder, 87 % (decides): near"),
        ("took", "1.2 ms, strategy hybrid"),
    ]
    rows = [
        ("debugger", "rule", "24", "24 %", "报错, /error|fail/"),
        ("coder", "semantic", "0.873", "87 %", ""),
    ]
    assert score_rows(found) == rows
    assert score_rows(found, everybody=True) == [*rows, ("writer", "", "0", "0 %", "")]
    many = route(
        stages=found.stages, candidates=[candidate(f"a{number}") for number in range(1000)]
    )
    assert score_rows(many, everybody=True) == rows


def test_a_decision_without_stages_shows_its_candidates() -> None:
    found = route(candidates=(candidate("a", "rule", 8), candidate("b")))
    assert [row[0] for row in score_rows(found)] == ["a"]


def test_a_reason_given_by_a_stage_is_not_repeated() -> None:
    said = stage("rule", "a", 90, sure=True, reason="a keyword")
    found = route(agent="a", method="rule", confidence=90, reason="a keyword", stages=(said,))
    assert [label for label, _ in reason_pairs(found)] == ["stage rule", "took"]


def test_a_stage_without_a_choice_gives_its_reason() -> None:
    found = route(strategy="llm", stages=(stage("llm", None, 0, reason="time-out"),))
    assert ("stage llm", "no agent: time-out") in reason_pairs(found)
