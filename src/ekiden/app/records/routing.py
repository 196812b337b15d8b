"""Where a request would go, as JSON, with how each agent did."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ekiden.app.deciding import decide
from ekiden.routing.decision import RouteDecision, Score
from ekiden.routing.rules import keyword_points, pattern_points

if TYPE_CHECKING:
    from ekiden.app.addressing import Address
    from ekiden.app.project import Project


async def route_record(project: Project, address: Address) -> dict[str, Any]:
    """What routing says of a request; `UnknownAgent` for a name that nobody has.

    Every agent that can get requests is a candidate; those that nothing speaks for come last.
    """
    decision = await decide(project, address, limit=max(len(project.agents), 1))
    known = {score.agent for score in decision.candidates}
    rest = [
        Score(agent=name, score=0, confidence=0, method="none")
        for name, agent in sorted(project.agents.items())
        if agent.scope != "system" and name not in known
    ]
    return {
        **decision.to_json(),
        "candidates": [
            {**score.to_json(), "matches": _matches(project, decision, score)}
            for score in (*decision.candidates, *rest)
        ],
    }


def _matches(project: Project, decision: RouteDecision, score: Score) -> list[dict[str, Any]]:
    """What speaks for an agent, with how much that counts."""
    agent = project.agents.get(score.agent)
    priority = 0 if agent is None else agent.triggers.priority
    matches: list[dict[str, Any]] = [
        {"kind": "keyword", "text": text, "points": keyword_points(priority)}
        for text in score.keywords
    ]
    matches += [
        {"kind": "pattern", "text": text, "points": pattern_points(priority)}
        for text in score.patterns
    ]
    matches += [
        {"kind": "semantic", "text": "", "points": each.score}
        for stage in decision.stages
        if stage.method == "semantic"
        for each in stage.candidates
        if each.agent == score.agent
    ]
    return matches
