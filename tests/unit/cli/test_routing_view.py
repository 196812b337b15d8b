"""Decisions as people read them."""

from __future__ import annotations

from typing import Any

import pytest

from ekiden.cli.routing_view import is_news, reason_pairs, route_line, score_rows
from ekiden.routing.decision import RouteDecision, Score, StageResult
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
            "rule-match → b, 5 % (the agent before gave up)",
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
def test_a_line_is_made_of_whatever_is_there(details: dict[str, Any]) -> None:
    assert route_line(details) == "no match"


def test_a_decision_without_a_method_still_names_the_agent() -> None:
    assert route_line({"agent": "a", "confidence": "high"}) == "route → a"


def test_that_a_conversation_stays_where_it_is_is_no_news() -> None:
    assert not is_news({"method": "sticky", "agent": "a"})
    assert is_news({"method": "rule", "agent": "a"})


def test_the_analysis_has_every_stage_and_every_score() -> None:
    rule = Score(
        agent="debugger", score=24, confidence=24, keywords=("报错",), patterns=("error|fail",)
    )
    near = Score(agent="coder", score=0.8731, confidence=87, method="semantic")
    decision = RouteDecision(
        agent="coder",
        method="semantic",
        confidence=87,
        reason="nearest to its examples",
        strategy="hybrid",
        matched_keywords=("报错",),
        matched_patterns=("error|fail",),
        candidates=(near,),
        stages=(
            StageResult(
                method="rule",
                agent="debugger",
                confidence=24,
                sure=False,
                reason="below 80 %",
                candidates=(rule,),
            ),
            StageResult(
                method="semantic",
                agent="coder",
                confidence=87,
                sure=True,
                reason="near",
                candidates=(near,),
            ),
        ),
        elapsed_ms=1.234,
    )
    assert reason_pairs(decision) == [
        ("because", "nearest to its examples"),
        ("keywords", "报错"),
        ("patterns", "error|fail"),
        ("stage rule", "debugger, 24 % (not sure): below 80 %"),
        ("stage semantic", "coder, 87 % (sure): near"),
        ("took", "1.2 ms, strategy hybrid"),
    ]
    rows = [
        ("debugger", "rule", "24", "24 %", "报错, /error|fail/"),
        ("coder", "semantic", "0.873", "87 %", ""),
    ]
    assert score_rows(decision) == rows
    everybody = ["writer", "coder", "debugger"]
    assert score_rows(decision, everybody) == [*rows, ("writer", "", "0", "0 %", "")]
    assert score_rows(decision, [f"a{number}" for number in range(1000)]) == rows


def test_a_decision_without_stages_shows_its_candidates() -> None:
    score = Score(agent="a", score=8, confidence=8)
    decision = RouteDecision(
        agent=None, method="none", confidence=0, reason="", strategy="rule", candidates=(score,)
    )
    assert [row[0] for row in score_rows(decision)] == ["a"]


def test_a_reason_that_a_stage_tells_is_not_repeated() -> None:
    stage = StageResult(method="rule", agent="a", confidence=90, sure=True, reason="a keyword")
    decision = RouteDecision(
        agent="a",
        method="rule",
        confidence=90,
        reason="a keyword",
        strategy="rule",
        stages=(stage,),
    )
    assert [label for label, _ in reason_pairs(decision)] == ["stage rule", "took"]


def test_a_stage_that_chose_nobody_says_why() -> None:
    stage = StageResult(method="llm", agent=None, confidence=0, sure=False, reason="time-out")
    decision = RouteDecision(
        agent=None, method="none", confidence=0, reason="", strategy="llm", stages=(stage,)
    )
    assert ("stage llm", "nobody (not sure): time-out") in reason_pairs(decision)
