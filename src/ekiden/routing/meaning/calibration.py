"""From the learner's scores to confidence: how often the agent with the best score is right.

A team with examples calibrates itself: for every text that was learnt, the learner tells the scores
that it would have got as a stranger, and these are what scores of real requests will be like. A
team that is known by descriptions has no requests to learn that from. Its confidence was fitted
once, by ``benchmarks/routing_calibration.py``, on the validation parts of two public sets of
requests (CLINC150 and xSID, English and Chinese) with teams of 3 to 150 agents that are described
in a sentence or named, one request in ten being for nobody.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from ekiden.routing.meaning.learner import Indices, Matrix

if TYPE_CHECKING:
    from numpy.typing import NDArray

KEPT = 0.95
"""The share of requests in scope that must be above the line."""

_USUAL_LINE = -0.1
_USUAL_SHARPNESS = 12.0
_USUAL_COUNT = 20
"""What is usual counts like so many texts. Measured on validation parts of public intent sets."""
_SHARPNESSES = (4, 6, 8, 10, 12, 15, 20, 25, 30, 40)


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """What the scores of one request are worth."""

    probable: Matrix
    """Of each agent: that it is the right one. What is missing to 1 is that nobody is."""
    lead: float
    """0 or more: the request is in scope."""


class Calibration(Protocol):
    """Turns scores into probabilities."""

    def judge(self, agents: Matrix, others: Matrix) -> Judgement:
        """Of the scores of the agents for one request, and of what is nobody's."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class TaughtCalibration:
    """Of a team with examples: soft-max, and a line below which nobody is meant."""

    sharpness: float
    line: float
    """By how much an agent must beat nobody to be chosen. It may be below 0, when requests that are
    an agent's are often as near to general ones; but such a choice is never probable."""

    @classmethod
    def usual(cls) -> TaughtCalibration:
        """Before anything is known."""
        return cls(sharpness=_USUAL_SHARPNESS, line=_USUAL_LINE)

    def judge(self, agents: Matrix, others: Matrix) -> Judgement:
        """As `Calibration.judge`."""
        nobody = max(float(others.max(initial=0.0)), 0.0)
        powers = np.append(agents, nobody + max(self.line, 0.0)).astype(np.float32)
        powers = np.exp(self.sharpness * (powers - powers.max()))
        probable = np.asarray(powers / powers.sum(), dtype=np.float32)[:-1]
        return Judgement(probable=probable, lead=float(agents.max()) - nobody - self.line)


def calibrate(left_out: Matrix, owners: Indices) -> TaughtCalibration:
    """From the scores of texts that were left out, the last column being nobody's, and the agents
    they belong to."""
    count = len(owners)
    if not count:
        return TaughtCalibration.usual()
    trust = count / (count + _USUAL_COUNT)
    agents = left_out[:, :-1]
    weights = 1 / np.bincount(owners)[owners]
    leads: Matrix = agents.max(axis=1) - np.maximum(left_out[:, -1], 0)
    line = _line(leads, weights / weights.sum())
    sharpness = min(_SHARPNESSES, key=lambda each: _surprise(agents, owners, each))
    return TaughtCalibration(
        line=trust * line + (1 - trust) * _USUAL_LINE,
        sharpness=float(sharpness**trust * _USUAL_SHARPNESS ** (1 - trust)),
    )


def _line(leads: Matrix, weights: NDArray[np.float64]) -> float:
    """Where the part to be kept is above; every agent counts alike, however many texts it has."""
    order = np.argsort(leads)
    below = np.cumsum(weights[order]) - weights[order] / 2
    return float(np.interp(1 - KEPT, below, leads[order]))


def _surprise(scores: Matrix, owners: Indices, sharpness: float) -> float:
    powers = sharpness * (scores - scores.max(axis=1, keepdims=True))
    own = powers[np.arange(len(owners)), owners]
    return float(np.mean(np.log(np.exp(powers).sum(axis=1)) - own))


RIGHT = (3.09, 9.49, 5.08, -0.36, -2.11, 0.42)
IN_SCOPE = (4.73, 2.46, 8.78, -0.17, -1.65, 2.02)
"""Weights of the features of a described team, the constant last: that the best agent is the right
one, and that the request is in scope at all."""
LINE = 0.78
"""How probable it must be that a request is in scope. The features of real teams vary more than
those of the sets that were fitted: with this, requests of a team's own subject are seldom refused.
"""

FITTED = 150
"""The largest team that was fitted. Among more agents the best score is higher by chance than the
fit knows, so a request must be clearer by the logarithm of how many times more there are. Of 24
requests for nobody among 336 public agent files 19 are refused, and 3 of 40 for somebody."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedCalibration:
    """Of a team that is known by descriptions: two logistic functions of the same features."""

    examples: float = 0.0
    """How many examples the agents have on average, as a part of those of a taught team."""

    def features(self, agents: Matrix, others: Matrix) -> tuple[float, ...]:
        """The best score, its margin over the second agent and over other subjects, and the size
        of the team: the best of many is high by chance."""
        ranked = np.sort(agents)[::-1]
        best = float(ranked[0])
        second = float(ranked[1]) if len(ranked) > 1 else 0.0
        other = float(others.max(initial=0.0))
        return best, best - second, best - other, math.log(len(agents)), self.examples

    def judge(self, agents: Matrix, others: Matrix) -> Judgement:
        """As `Calibration.judge`."""
        features = self.features(agents, others)
        right, in_scope = logistic(RIGHT, features), logistic(IN_SCOPE, features)
        best = int(agents.argmax())
        powers = np.exp(_USUAL_SHARPNESS * (agents - agents[best]))
        powers[best] = 0
        left = max(in_scope - right, 0.0) * powers / max(float(powers.sum()), 1e-9)
        probable = np.minimum(left, right)
        probable[best] = right
        return Judgement(
            probable=np.asarray(probable, dtype=np.float32),
            lead=_logit(in_scope) - _logit(LINE) - max(0.0, math.log(len(agents) / FITTED)),
        )


def logistic(weights: tuple[float, ...], features: tuple[float, ...]) -> float:
    """The probability that these features speak for."""
    *slopes, constant = weights
    return 1 / (1 + math.exp(-sum(w * f for w, f in zip(slopes, features, strict=True)) - constant))


def _logit(probability: float) -> float:
    return math.log(probability / (1 - probability))
