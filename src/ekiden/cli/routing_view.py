"""A routing decision as people read it: one line, or the whole analysis."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ekiden.routing.decision import RouteDecision, Score, StageResult

_LABELS = {"rule": "rule-match", "sticky": "kept"}
_CERTAIN = frozenset({"named", "sticky", "default"})
"""Methods that do not guess, so that a percentage would say nothing."""
_CAUSES = {"gave_up": "the agent before gave up", "switched": "the subject changed"}

_FEW = 20

SCORE_HEADERS = ("agent", "stage", "score", "confidence", "matched")


def route_line(details: Mapping[str, Any]) -> str:
    """A decision, as `RouteDecision.to_json` and the details of `route` events tell it, as a line.

    For example ``rule-match → debugger, 90 %``, ``named → billing``, ``kept → orders`` or
    ``no match: no keyword was found``. Fields that are missing are left out, never an error.
    """
    agent, method = details.get("agent"), str(details.get("method") or "route")
    if not agent:
        reason = details.get("reason")
        return f"no match: {reason}" if reason else "no match"
    line = f"{_LABELS.get(method, method)} → {agent}"
    confidence = details.get("confidence")
    if method not in _CERTAIN and isinstance(confidence, int | float):
        line = f"{line}, {confidence:.0f} %"
    cause = _CAUSES.get(str(details.get("cause")))
    return f"{line} ({cause})" if cause else line


def is_news(details: Mapping[str, Any]) -> bool:
    """Whether a decision tells a person anything: not if the conversation stays where it is."""
    return details.get("method") != "sticky"


def reason_pairs(decision: RouteDecision) -> list[tuple[str, str]]:
    """What matched and what every stage said, as labels with texts.

    A reason that the line or a stage has told already is not repeated.
    """
    told = decision.agent is None or any(each.reason == decision.reason for each in decision.stages)
    pairs = [("because", decision.reason)] if decision.reason and not told else []
    if decision.matched_keywords:
        pairs.append(("keywords", ", ".join(decision.matched_keywords)))
    if decision.matched_patterns:
        pairs.append(("patterns", ", ".join(decision.matched_patterns)))
    pairs += [(f"stage {stage.method}", _said(stage)) for stage in decision.stages]
    pairs.append(("took", f"{decision.elapsed_ms:.1f} ms, strategy {decision.strategy}"))
    return pairs


def _said(stage: StageResult) -> str:
    choice = f"{stage.agent}, {stage.confidence} %" if stage.agent else "nobody"
    return f"{choice} ({'sure' if stage.sure else 'not sure'}): {stage.reason}"


def score_rows(decision: RouteDecision, names: Collection[str] = ()) -> list[tuple[str, ...]]:
    """How each agent did at each stage, best first; the columns are `SCORE_HEADERS`.

    Those of `names`, unless they are many, whom no stage mentions follow with nothing.
    """
    told: list[Score] = [score for stage in decision.stages for score in stage.candidates]
    scores: Sequence[Score] = told or decision.candidates
    rows: list[tuple[str, ...]] = [
        (
            score.agent,
            str(score.method),
            f"{score.score:.3g}",
            f"{score.confidence} %",
            ", ".join((*score.keywords, *(f"/{each}/" for each in score.patterns))),
        )
        for score in scores
    ]
    rest = sorted({*names} - {score.agent for score in scores})
    return rows + [(name, "", "0", "0 %", "") for name in rest if len(names) <= _FEW]
