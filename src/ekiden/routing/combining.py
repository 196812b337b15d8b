"""What a model says and what meaning says, weighed together.

A model that tells how probable each of its choices is (as local ones do) and the semantic stage
look at a request in different ways and are wrong at different places: the product of both is
right more often than either alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from ekiden.routing.decision import Score, StageResult

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
