"""The decision of a router: combines the results of its stages, and decides when a conversation
changes agents."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import field, replace
from itertools import chain
from typing import Any, Literal, Protocol, TypeAlias

from ekiden.core.conversation.model import Usage
from ekiden.core.dataclass import dataclass
from ekiden.core.roles import RouteCause

ROUTER_NAME = "router-agent"
"""The name of the system agent that routes requests."""
STRATEGIES: tuple[Strategy, ...] = ("rule", "semantic", "llm", "hybrid")


Strategy: TypeAlias = Literal["rule", "semantic", "llm", "hybrid"]

Method: TypeAlias = Literal["rule", "semantic", "llm", "named", "sticky", "default", "none"]
"""How the agent was chosen: by a stage, by the person (`named`), or by the fallback (`default`).
`sticky` means that the conversation stays with its agent. `none` means that no agent matched."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """The score of one agent."""

    agent: str
    score: float
    """The score: points for `rule`, a probability for `semantic`. Compare only scores of the same
    method."""
    confidence: int
    """The confidence, from 0 to 100."""
    method: Method = "rule"
    keywords: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The score as JSON, as `ekiden route --json` prints it."""
        data: dict[str, Any] = {
            "agent": self.agent,
            "score": self.score,
            "confidence": self.confidence,
            "method": self.method,
        }
        if self.keywords:
            data["matched_keywords"] = list(self.keywords)
        if self.patterns:
            data["matched_patterns"] = list(self.patterns)
        return data


@dataclass(frozen=True, slots=True, kw_only=True)
class StageResult:
    """The result of one stage."""

    method: Method
    agent: str | None
    """The chosen agent, even if the stage is not sure. `None` if the stage found no agent, or was
    unavailable. With `sure`, `None` is the final decision that no agent fits."""
    confidence: int
    sure: bool
    """Whether the choice is final. Otherwise the router asks the next stage."""
    reason: str
    """An explanation for people: why the stage chose this agent, or no agent."""
    candidates: tuple[Score, ...] = ()
    """The candidates, best first."""
    elapsed_ms: float = 0.0
    context: str | None = None
    """For `llm`: text that the routing model wrote for the agent. Treat it as untrusted data."""
    usage: Usage | None = None
    """For `llm`: the usage of the model call."""

    def to_json(self) -> dict[str, Any]:
        """The result as JSON, without the candidates."""
        data: dict[str, Any] = {
            "method": self.method,
            "agent": self.agent,
            "confidence": self.confidence,
            "sure": self.sure,
            "reason": self.reason,
            "elapsed_ms": round(self.elapsed_ms, 3),
        }
        if self.usage is not None:
            data["usage"] = self.usage.to_json()
        return data


class Stage(Protocol):
    """A part of the router that chooses an agent for a text."""

    def decide(self, text: str, *, excluded: Collection[str] = ()) -> StageResult:
        """Choose among all agents that are not `excluded`.

        This method may block for a few milliseconds, and must be thread-safe.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteDecision:
    """The chosen agent for a request, and how it was chosen.

    For example::

        decision = await Router(agents).route("the build fails with error TS2304")
        print(decision.agent, decision.method, decision.confidence)
    """

    agent: str | None
    method: Method
    confidence: int
    reason: str
    """An explanation for people: why this agent was chosen, or why no agent matched."""
    strategy: Strategy
    cause: RouteCause = "new"
    matched_keywords: tuple[str, ...] = ()
    matched_patterns: tuple[str, ...] = ()
    candidates: tuple[Score, ...] = ()
    """The chosen agent and the next best agents, best first, with their scores in the stage that
    decided."""
    stages: tuple[StageResult, ...] = field(default=())
    """The results of all stages, in order. The result of an unavailable stage has the reason."""
    elapsed_ms: float = 0.0
    context: str | None = None
    """Data for the agent, written by the routing model. Treat it as untrusted data."""

    @property
    def usage(self) -> Usage | None:
        """The usage of the model calls for this decision; `None` if no model was called."""
        spent = [each.usage for each in self.stages if each.usage is not None]
        if not spent:
            return None
        total = Usage()
        for usage in spent:
            total.add(usage)
        return total

    def to_json(self) -> dict[str, Any]:
        """Return the decision as JSON, as in `ekiden route --json` and in `route` events. The
        format is stable. `context` and `usage` are left out if empty.
        """
        data: dict[str, Any] = {
            "agent": self.agent,
            "method": self.method,
            "confidence": self.confidence,
            "matched_keywords": list(self.matched_keywords),
            "matched_patterns": list(self.matched_patterns),
            "candidates": [each.to_json() for each in self.candidates],
            "reason": self.reason,
            "elapsed_ms": round(self.elapsed_ms, 3),
            "strategy": self.strategy,
            "cause": self.cause,
            "stages": [each.to_json() for each in self.stages],
        }
        if self.context is not None:
            data["context"] = self.context
        if (usage := self.usage) is not None:
            data["usage"] = usage.to_json()
        return data


MEANING_WEIGHT = 2.0
"""The weight of the logarithm of the semantic stage's probability. The weight of the model's is
1."""

_LEAST = 1e-3
"""The lowest probability that counts, so that one stage that is sure and wrong cannot decide
alone."""


def combined(model: StageResult, before: Sequence[StageResult], *, sure_at: int = 0) -> StageResult:
    """The model's result, combined with the probabilities of the semantic stage.

    The result is sure at a confidence of `sure_at` or more. If the model or the semantic stage has
    no probabilities, the model's result is returned unchanged. For each of them, 1 minus the sum of
    the probabilities is the probability that no agent fits.
    """
    meaning = next((stage for stage in before if stage.method == "semantic"), None)
    if meaning is None or len(meaning.candidates) < 2 or len(model.candidates) < 2:
        return model
    by_model = _probabilities(model.candidates)
    by_meaning = _probabilities(meaning.candidates)
    names: list[str | None] = [*by_model, None]
    logs = {
        name: math.log(_of(by_model, name)) + MEANING_WEIGHT * math.log(_of(by_meaning, name))
        for name in names
    }
    total = sum(math.exp(each) for each in logs.values())
    shares = {name: math.exp(each) / total for name, each in logs.items()}
    best = max(shares, key=lambda name: (shares[name], name or ""))
    if best is None:
        reason = "the model and meaning together: no agent fits"
        return replace(model, agent=None, confidence=0, sure=True, reason=reason)
    ranked = sorted(by_model, key=lambda name: (-shares[name], name))
    reason = (
        f"{best}: the model chose {model.agent or 'no agent'}, meaning "
        f"{meaning.agent or 'no agent'}"
    )
    if best == model.agent:
        reason = model.reason
    confidence = round(100 * shares[best])
    return replace(
        model,
        agent=best,
        confidence=confidence,
        sure=confidence >= sure_at,
        reason=f"{reason} (weighed together with meaning)",
        candidates=tuple(
            Score(
                agent=name,
                score=round(shares[name], 4),
                confidence=round(100 * shares[name]),
                method="llm",
            )
            for name in ranked
        ),
    )


def _probabilities(candidates: Sequence[Score]) -> dict[str, float]:
    return {score.agent: score.score for score in candidates}


def _of(probabilities: Mapping[str, float], name: str | None) -> float:
    if name is None:
        return max(1 - sum(probabilities.values()), _LEAST)
    return max(probabilities.get(name, 0.0), _LEAST)


@dataclass(frozen=True, slots=True, kw_only=True)
class RoutingVerdict:
    """The chosen agent, the deciding stage, and the reason."""

    agent: str | None
    method: Method
    confidence: int
    reason: str
    context: str | None = None


def verdict(strategy: Strategy, stages: Sequence[StageResult]) -> RoutingVerdict:
    """The verdict from the results of the strategy's stages, in the order in which they ran.

    The strategy `rule` takes the best match, even a weak one. `semantic` takes an agent that is
    similar enough. `llm` takes the model's choice. `hybrid` takes the choice of the rules or of the
    semantic stage, if one of them is sure. Otherwise it takes the model's choice. If the model says
    that no agent fits, the result is no agent, unless rules and semantic stage name the same agent.
    Without a model, or if the model failed:

    - rules and semantic name the same agent: this agent, with both confidences combined;
    - semantic names an agent: this agent;
    - only the rules name an agent: this agent;
    - otherwise: no agent.
    """
    results: dict[Method, StageResult] = {stage.method: stage for stage in stages}
    if strategy != "hybrid":
        only = results[strategy]
        return by_stage(only) if only.agent is not None else _no_agent(stages)
    rule, meaning, model = results["rule"], results.get("semantic"), results.get("llm")
    for stage in (rule, meaning, model):
        if stage is not None and stage.agent is not None and (stage.sure or stage is model):
            return by_stage(stage)
    if agreed := agreement(stages):
        return agreed
    if model is not None and model.sure:
        return _no_agent(stages)
    if meaning is not None and meaning.agent is not None:
        return by_stage(meaning)
    if rule.agent is not None:
        return replace(by_stage(rule), reason=f"{rule.reason}; no other stage has anything to say")
    return _no_agent(stages)


def agreement(stages: Sequence[StageResult]) -> RoutingVerdict | None:
    """The agent that the rules and the semantic stage name, if they name the same agent.

    The stages are independent, so the product of their doubts (1 minus the confidence) remains.
    """
    results = {stage.method: stage for stage in stages}
    rule, meaning = results.get("rule"), results.get("semantic")
    if rule is None or meaning is None or rule.agent is None or rule.agent != meaning.agent:
        return None
    doubt = (100 - rule.confidence) * (100 - meaning.confidence) / 100
    return RoutingVerdict(
        agent=rule.agent,
        method="semantic",
        confidence=int(100 - doubt),
        reason=f"rules and meaning agree: {rule.reason}; {meaning.reason}",
    )


def by_stage(stage: StageResult) -> RoutingVerdict:
    """The verdict from the choice of one stage."""
    return RoutingVerdict(
        agent=stage.agent,
        method=stage.method,
        confidence=stage.confidence,
        reason=stage.reason,
        context=stage.context,
    )


def ranking(stages: Sequence[StageResult]) -> list[str]:
    """The candidates of all stages, most likely first: the best of each stage, then the second of
    each stage, and so on."""
    columns = [[score.agent for score in stage.candidates] for stage in stages]
    longest = max(map(len, columns), default=0)
    rows = ([names[i] for names in columns if i < len(names)] for i in range(longest))
    return list(dict.fromkeys(chain.from_iterable(rows)))


def candidates(
    chosen: RoutingVerdict, stages: Sequence[StageResult], *, limit: int
) -> tuple[Score, ...]:
    """The chosen agent and the next best agents, each with its matched keywords and patterns.

    Candidates of the deciding stage come first, in its order, followed by candidates of the other
    stages, last stage first. If no stage decided, the last stage with candidates comes first.
    """
    deciding = [stage for stage in stages if stage.method == chosen.method]
    order = [*deciding, *(stage for stage in reversed(stages) if stage not in deciding)]
    found: dict[str, Score] = {}
    for score in chain.from_iterable(stage.candidates for stage in order):
        found.setdefault(score.agent, score)
    if chosen.agent is not None:
        unknown = Score(
            agent=chosen.agent,
            score=chosen.confidence,
            confidence=chosen.confidence,
            method=chosen.method,
        )
        found = {chosen.agent: found.get(chosen.agent, unknown), **found}
    rules = (stage.candidates for stage in stages if stage.method == "rule")
    matched = {score.agent: score for score in chain.from_iterable(rules)}
    return tuple(
        _with_matches(score, matched.get(score.agent)) for score in list(found.values())[:limit]
    )


def _with_matches(score: Score, rule: Score | None) -> Score:
    if rule is None or rule is score:
        return score
    return replace(score, keywords=rule.keywords, patterns=rule.patterns)


def _no_agent(stages: Sequence[StageResult]) -> RoutingVerdict:
    if len(stages) == 1:
        reason = stages[0].reason
    else:
        reason = "; ".join(f"{stage.method}: {stage.reason}" for stage in stages)
    return RoutingVerdict(agent=None, method="none", confidence=0, reason=reason)


MARGIN = 20
"""The lead in confidence, in points, with which a conversation moves to another agent."""


def clearly_another(active: str, rule: StageResult, semantic: StageResult) -> StageResult | None:
    """The stage that clearly prefers another agent to `active`; `None` if no stage does.

    The semantic stage alone does not move a conversation to an agent to which the rules give a
    lower confidence than to `active`.
    """
    if _is_clear(rule, active):
        return rule
    if not _is_clear(semantic, active):
        return None
    if _confidence(rule, active) > _confidence(rule, semantic.agent):
        return None
    return semantic


def _is_clear(stage: StageResult, active: str) -> bool:
    return (
        stage.sure
        and stage.agent is not None
        and stage.agent != active
        and stage.confidence - _confidence(stage, active) >= MARGIN
    )


def _confidence(stage: StageResult, agent: str | None) -> int:
    return next((each.confidence for each in stage.candidates if each.agent == agent), 0)
