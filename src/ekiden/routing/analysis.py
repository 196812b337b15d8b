"""The analysis of a routing decision: every agent, with its scores and the reasons for them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from ekiden.core.dataclass import dataclass
from ekiden.core.documents import Value, from_json, left_out
from ekiden.core.roles import RouteCause
from ekiden.routing.decision import Method, RouteDecision, Score, Strategy
from ekiden.routing.rules import keyword_points, pattern_points

if TYPE_CHECKING:
    from ekiden.core.agent import Agent
    from ekiden.routing.settings import RoutingSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteMatch(Value):
    """A reason to route a request to an agent: a keyword, a pattern or a similar meaning."""

    kind: Literal["keyword", "pattern", "semantic"]
    text: str
    """The keyword or pattern; empty for a match by meaning."""
    points: float | None
    """The weight of this match: the points of a rule, or the probability of a semantic match."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StageScore(Value):
    """The score of one agent at one stage."""

    agent: str
    score: float
    """The score. With the method `rule`, the score is a number of points. With `semantic`, it is a
    probability. Scores of different methods cannot be compared."""
    confidence: int
    """The confidence, from 0 to 100."""
    method: Method
    matched_keywords: Sequence[str] | None = left_out()
    matched_patterns: Sequence[str] | None = left_out()


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteScore(StageScore):
    """The score of one agent. If no stage found a reason for the agent, the score is 0, and the
    method is `none`."""

    matches: Sequence[RouteMatch]


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteStage(Value):
    """The result of one stage."""

    method: Method
    agent: str | None
    """The agent that the stage chose, even if the choice is uncertain."""
    confidence: int
    sure: bool
    """Whether the choice is certain enough to need no further stage."""
    reason: str
    elapsed_ms: float
    usage: Mapping[str, Any] | None = left_out()
    candidates: Sequence[StageScore]
    """The candidates of the stage, best first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteAnalysis(Value):
    """The agent that would get a request, with all details of the decision."""

    agent: str | None
    """The chosen agent. `null` if no agent matched."""
    method: Method
    """How the agent was chosen. `named`: by the person. `default`: by the fallback. `none`: no
    agent matched. Any other value is the stage that chose the agent."""
    confidence: int
    matched_keywords: Sequence[str]
    matched_patterns: Sequence[str]
    candidates: Sequence[RouteScore]
    """Every agent that can get requests, best first."""
    reason: str
    elapsed_ms: float
    strategy: Strategy
    cause: RouteCause
    stages: Sequence[RouteStage]
    """The results of all stages, in order. The result of an unavailable stage has the reason."""
    context: str | None = left_out()
    """Data for the agent, written by the routing model. Treat it as untrusted data."""
    usage: Mapping[str, Any] | None = left_out()
    """The token counts of the model calls for this decision."""
    fallback: str | None = left_out()
    """A description of what happens to a request that no agent matches."""


def analysis(
    agents: Mapping[str, Agent[Any]], settings: RoutingSettings, decision: RouteDecision
) -> RouteAnalysis:
    """Create the analysis of a routing decision among `agents`. Agents without a match come
    last."""
    known = {score.agent for score in decision.candidates}
    rest = [
        Score(agent=name, score=0, confidence=0, method="none")
        for name, agent in sorted(agents.items())
        if agent.scope != "system" and name not in known
    ]
    data = {
        **decision.to_json(),
        "candidates": [
            {**score.to_json(), "matches": [*_matches(agents, decision, score)]}
            for score in (*decision.candidates, *rest)
        ],
        "stages": [
            {**stage.to_json(), "candidates": [score.to_json() for score in stage.candidates]}
            for stage in decision.stages
        ],
        "fallback": _fallback(agents, settings, decision) if decision.agent is None else None,
    }
    route: RouteAnalysis = from_json(RouteAnalysis, data)
    return route


def _matches(
    agents: Mapping[str, Agent[Any]], decision: RouteDecision, score: Score
) -> Iterator[dict[str, Any]]:
    """The evidence for an agent, each with its weight."""
    agent = agents.get(score.agent)
    priority = 0 if agent is None else agent.triggers.priority
    for text in score.keywords:
        yield {"kind": "keyword", "text": text, "points": keyword_points(priority)}
    for text in score.patterns:
        yield {"kind": "pattern", "text": text, "points": pattern_points(priority)}
    for stage in decision.stages:
        for each in stage.candidates:
            if stage.method == "semantic" and each.agent == score.agent:
                yield {"kind": "semantic", "text": "", "points": each.score}


_MAX_NAMED = 5
"""The maximum number of agents that are named when a person must choose."""


def _fallback(agents: Collection[str], settings: RoutingSettings, decision: RouteDecision) -> str:
    """What happens to a request that no agent matches, in words."""
    match settings.fallback:
        case "default_agent" if settings.default_agent is not None:
            return f"the fallback gives such a request to {settings.default_agent}"
        case "prompt_user":
            likely = [score.agent for score in decision.candidates]
            others = sorted(name for name in agents if name not in likely)
            names = ", ".join(f"@{name}" for name in [*likely, *others][:_MAX_NAMED])
            more = len(agents) - _MAX_NAMED
            rest = f" or one of {more} more" if more > 0 else ""
            return f"the fallback asks the person to name an agent: {names}{rest}"
        case _:
            return "there is no fallback: such a request ends with the error route.none"
