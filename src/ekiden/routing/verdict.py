"""From the results of the stages to a decision, and when a conversation changes agents."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain

from ekiden.core.dataclass import dataclass
from ekiden.routing.decision import Method, Score, StageResult, Strategy

MEANING_WEIGHT = 2.0
"""How much more the logarithm of the semantic stage's probability counts than the model's."""

_LEAST = 1e-3
"""No probability counts as less: being sure of the wrong one must not settle it alone."""


def combined(model: StageResult, before: Sequence[StageResult], *, sure_at: int = 0) -> StageResult:
    """What the model said, with the semantic stage's probabilities counted in.

    From the confidence `sure_at` on it is sure. It stays as it is where either of them names no
    probabilities. What is missing to 1 in the semantic ones is the probability that nobody is
    meant; so is it in the model's.
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
    """What follows from `stages`, which are those of `strategy` in the order they were asked.

    `rule` takes the best match, however weak; `semantic` what is near enough; `llm` what the model
    chose. `hybrid` takes the first of rules and semantic that is sure; else the model's choice. Two
    stages that name the same agent are not vetoed by a model that says that nobody fits; a single
    one that is not sure is. Without a model, or when it failed:

    - rules and semantic name the same agent: it is taken, with both confidences combined;
    - semantic names an agent: what is near enough for `semantic` is so here;
    - only the rules name one: the best match is taken, as `rule` would;
    - else nobody.
    """
    said: dict[Method, StageResult] = {stage.method: stage for stage in stages}
    if strategy != "hybrid":
        only = said[strategy]
        return by_stage(only) if only.agent is not None else _nobody(stages)
    rule, meaning, model = said["rule"], said.get("semantic"), said.get("llm")
    for stage in (rule, meaning, model):
        if stage is not None and stage.agent is not None and (stage.sure or stage is model):
            return by_stage(stage)
    if agreed := agreement(stages):
        return agreed
    if model is not None and model.sure:
        return _nobody(stages)
    if meaning is not None and meaning.agent is not None:
        return by_stage(meaning)
    if rule.agent is not None:
        return replace(by_stage(rule), reason=f"{rule.reason}; no other stage has anything to say")
    return _nobody(stages)


def agreement(stages: Sequence[StageResult]) -> RoutingVerdict | None:
    """The agent that both rules and semantic name, if they do.

    They look at different things, so the doubt that is left is the product of both.
    """
    said = {stage.method: stage for stage in stages}
    rule, meaning = said.get("rule"), said.get("semantic")
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
    """The names that the stages gave, the likeliest first; the stages take turns."""
    columns = [[score.agent for score in stage.candidates] for stage in stages]
    longest = max(map(len, columns), default=0)
    rows = ([names[i] for names in columns if i < len(names)] for i in range(longest))
    return list(dict.fromkeys(chain.from_iterable(rows)))


def candidates(
    chosen: RoutingVerdict, stages: Sequence[StageResult], *, limit: int
) -> tuple[Score, ...]:
    """The chosen agent and the runners-up, best first, each with what of its rules matched.

    They are as the deciding stage scored them; those that it did not score follow as the stages
    before it did. Where nobody decided, the last stage that scored anybody comes first.
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
    matched = {score.agent: score for stage in stages for score in _of_rules(stage)}
    return tuple(
        _with_matches(score, matched.get(score.agent)) for score in list(found.values())[:limit]
    )


def _of_rules(stage: StageResult) -> tuple[Score, ...]:
    return stage.candidates if stage.method == "rule" else ()


def _with_matches(score: Score, rule: Score | None) -> Score:
    if rule is None or rule is score:
        return score
    return replace(score, keywords=rule.keywords, patterns=rule.patterns)


def _nobody(stages: Sequence[StageResult]) -> RoutingVerdict:
    if len(stages) == 1:
        reason = stages[0].reason
    else:
        reason = "; ".join(f"{stage.method}: {stage.reason}" for stage in stages)
    return RoutingVerdict(agent=None, method="none", confidence=0, reason=reason)
