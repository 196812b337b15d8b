"""How sure a score is, told by the texts themselves.

For every text that was learnt, the learner tells the scores that it would have got as a stranger.
They are what scores of real requests will be like: how often the best one is right gives the
probabilities, and how low the best one may be gives the line below which nobody is meant.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ekiden.routing.semantic_learner import Indices, Matrix

if TYPE_CHECKING:
    from numpy.typing import NDArray

KEPT = 0.95
"""The part of the requests meant for somebody that is to be above the line."""
SURE = 0.8
"""How probable a choice must be to stand without asking further."""

_USUAL_LINE = -0.1
_USUAL_SHARPNESS = 12.0
_USUAL_COUNT = 20
"""What is usual counts like so many texts. Measured on validation parts of public intent sets."""
_SHARPNESSES = (4, 6, 8, 10, 12, 15, 20, 25, 30, 40)


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """From scores to probabilities, one of them being that nobody is meant.

    Scores are those of the agents and, last, of the general requests that are nobody's.
    """

    sharpness: float
    line: float
    """By how much an agent must beat nobody to be chosen. It may be below 0, when requests that are
    an agent's are often as near to general ones; but such a choice is never probable."""

    @classmethod
    def usual(cls) -> Calibration:
        """Before anything is known."""
        return cls(sharpness=_USUAL_SHARPNESS, line=_USUAL_LINE)

    def probabilities(self, scores: Matrix) -> Matrix:
        """Of each agent, and last of nobody, for the scores of one text."""
        powers = scores.astype(np.float32)
        powers[-1] = max(float(powers[-1]), 0.0) + max(self.line, 0.0)
        powers = np.exp(self.sharpness * (powers - powers.max()))
        return np.asarray(powers / powers.sum(), dtype=np.float32)

    def lead(self, scores: Matrix) -> float:
        """By how much the best agent beats nobody, for the scores of one text."""
        return float(_leads(scores[None])[0]) - self.line


def calibrate(left_out: Matrix, owners: Indices) -> Calibration:
    """From the scores of texts that were left out and the agents they belong to."""
    count = len(owners)
    if not count:
        return Calibration.usual()
    trust = count / (count + _USUAL_COUNT)
    agents = left_out[:, :-1]
    weights = 1 / np.bincount(owners)[owners]
    line = _line(_leads(left_out), weights / weights.sum())
    sharpness = min(_SHARPNESSES, key=lambda each: _surprise(agents, owners, each))
    return Calibration(
        line=trust * line + (1 - trust) * _USUAL_LINE,
        sharpness=float(sharpness**trust * _USUAL_SHARPNESS ** (1 - trust)),
    )


def _leads(scores: Matrix) -> Matrix:
    leads: Matrix = scores[:, :-1].max(axis=1) - np.maximum(scores[:, -1], 0)
    return leads


def _line(leads: Matrix, weights: NDArray[np.float64]) -> float:
    """Where the part to be kept is above; every agent counts alike, however many texts it has."""
    order = np.argsort(leads)
    below = np.cumsum(weights[order]) - weights[order] / 2
    return float(np.interp(1 - KEPT, below, leads[order]))


def _surprise(scores: Matrix, owners: Indices, sharpness: float) -> float:
    powers = sharpness * (scores - scores.max(axis=1, keepdims=True))
    own = powers[np.arange(len(owners)), owners]
    return float(np.mean(np.log(np.exp(powers).sum(axis=1)) - own))
