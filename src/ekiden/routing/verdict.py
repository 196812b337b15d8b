"""Combines the results of the stages, and decides when a conversation changes agents."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain

from ekiden.core.dataclass import dataclass
from ekiden.routing.decision import Method, Score, StageResult, Strategy

MEANING_WEIGHT = 2.0
"""The weight of the logarithm of the semantic stage's probability; the model's weight is 1."""

_LEAST = 1e-3
"""The lowest probability that counts, so that one stage that is sure and wrong cannot decide
alone."""


def combined(model: StageResult, before: Sequence[StageResult], *, sure_at: int = 0) -> StageResult:
    """The model's result, combined with the probabilities of the semantic stage.

    It is sure at a confidence of `sure_at` or more. It is returned unchanged if either has no
    probabilities. In both, the rest to 1 is the probability that no agent fits.
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

    `rule` takes the best match, however weak; `semantic` an agent that is near enough; `llm` the
    model's choice. `hybrid` takes the first of rules and semantic that is sure, or else the model's
    choice. A model that says that no agent fits overrules a single stage that is not sure, but not
    two stages that name the same agent. Without a model, or if it failed:

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
    """The agent that both rules and semantic name, if they name the same.

    The stages are independent, so the remaining doubt is the product of both doubts.
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
    """The candidates of all stages, the most likely first: first the best of each stage, and so
    on."""
    columns = [[score.agent for score in stage.candidates] for stage in stages]
    longest = max(map(len, columns), default=0)
    rows = ([names[i] for names in columns if i < len(names)] for i in range(longest))
    return list(dict.fromkeys(chain.from_iterable(rows)))


def candidates(
    chosen: RoutingVerdict, stages: Sequence[StageResult], *, limit: int
) -> tuple[Score, ...]:
    """The chosen agent and the next best ones, each with its matched keywords and patterns.

    The order is that of the deciding stage, then that of the stages before it. If no stage decided,
    it is that of the last stage with candidates, then of the stages before it.
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
"""The difference of confidence that moves a conversation to another agent."""


def clearly_another(active: str, rule: StageResult, semantic: StageResult) -> StageResult | None:
    """The stage that is sure of another agent than `active`, by a clear margin; `None` if none is.

    Meaning alone does not move a conversation to an agent with a lower confidence by rules than
    `active`.
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
