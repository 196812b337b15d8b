"""From the results of the stages to a decision, and when a conversation changes agents."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from ekiden.routing.decision import Method, Score, StageResult, Strategy

MEANING_WEIGHT = 2.0
"""How much more the logarithm of the semantic stage's probability counts than the model's."""

_LEAST = 1e-3
"""No probability counts as less: being sure of the wrong one must not settle it alone."""


def combined(model: StageResult, before: Sequence[StageResult]) -> StageResult:
    """What the model said, with the semantic stage's probabilities counted in.

    It stays as it is where either of them names no probabilities. What is missing to 1 in the
    semantic ones is the probability that nobody is meant; so is it in the model's.
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
        f"{best}: the model names {model.agent or 'nobody'}, meaning {meaning.agent or 'nobody'}"
    )
    if best == model.agent:
        reason = model.reason
    return replace(
        model,
        agent=best,
        confidence=round(100 * shares[best]),
        sure=True,
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
class Verdict:
    """Who, by which stage, and why."""

    agent: str | None
    method: Method
    confidence: int
    reason: str
    context: str | None = None


def verdict(strategy: Strategy, stages: Sequence[StageResult]) -> Verdict:
    """What follows from `stages`, which are those of `strategy` in the order they were asked.

    `rule` takes the best match, however weak; `semantic` what is near enough; `llm` what the model
    chose. `hybrid` takes the first that is sure, the rules being so at their threshold and a model
    always. If none is (there is no model, or it failed):

    - rules and semantic name the same agent: two independent signs of one agent are taken, with
      both confidences combined;
    - semantic names an agent: what is near enough for `semantic` is so here;
    - only the rules name one: the best match is taken, as `rule` would;
    - else nobody.
    """
    said: dict[Method, StageResult] = {stage.method: stage for stage in stages}
    if strategy != "hybrid":
        stage = said[strategy]
        stands = stage.agent is not None and (stage.sure or strategy != "llm")
        return by_stage(stage) if stands else _nobody(stages)
    for stage in stages:
        if stage.sure:
            return by_stage(stage) if stage.agent is not None else _nobody(stages)
    rule = said["rule"]
    near = [stage for stage in stages if stage is not rule and stage.agent is not None]
    if near and near[0].agent == rule.agent:
        return _agreed(rule, near[0])
    if near:
        return by_stage(near[0])
    if rule.agent is not None:
        return replace(by_stage(rule), reason=f"{rule.reason}; no other stage has anything to say")
    return _nobody(stages)


def by_stage(stage: StageResult) -> Verdict:
    """What the stage chose."""
    return Verdict(
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


def candidates(chosen: Verdict, stages: Sequence[StageResult], *, limit: int) -> tuple[Score, ...]:
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


def _agreed(rule: StageResult, other: StageResult) -> Verdict:
    doubt = (100 - rule.confidence) * (100 - other.confidence) / 100
    return Verdict(
        agent=rule.agent,
        method=other.method,
        confidence=int(100 - doubt),
        reason=f"neither is sure, but both agree: {rule.reason}; {other.reason}",
    )


def _nobody(stages: Sequence[StageResult]) -> Verdict:
    if len(stages) == 1:
        reason = stages[0].reason
    else:
        reason = "; ".join(f"{stage.method}: {stage.reason}" for stage in stages)
    return Verdict(agent=None, method="none", confidence=0, reason=reason)
