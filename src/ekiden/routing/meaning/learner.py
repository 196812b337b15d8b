"""Learns from a few texts who takes which request, and how sure its scores are.

Two texts are alike by meaning (a Gaussian of the distance of their embeddings; with two encoders,
the mean of both) and by letters (the cosine of their hashed pieces). Ridge regression on these
likenesses gives every agent a score. It has a closed form, so learning takes a moment, gives the
same result every time, and tells for every text what the score would have been without it. That is
what the calibration is made from.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol, TypeAlias

import numpy as np

from ekiden.core.dataclass import dataclass

if TYPE_CHECKING:
    from numpy.typing import NDArray


Matrix: TypeAlias = "NDArray[np.float32]"
Indices: TypeAlias = "NDArray[np.intp]"

WIDTH = 1.0
"""Of the Gaussian: larger makes likeness by meaning more local."""
SECOND = 0.5
"""The second encoder's part of likeness by meaning, between texts that it knows."""
LETTERS = 0.25
"""How much likeness by letters counts."""
SHARED = 0.2
"""A text whose letters are less like those of every known one is worded in another way, perhaps in
another language: its meaning then counts for its letters too."""
RIDGE = 0.05
"""How much a single text is doubted."""
EMPHASIS = 0.25
"""How far directions in which the texts differ much count more than the others."""
FLOOR = 0.01
"""What the least of these directions keeps, as a part of all variance."""
FEW = 20
"""With about so many texts, their middle is half believed to be the middle of all requests."""
EVEN = 0.5
"""How far the scores of an agent that has most of the texts are raised to those of the others: from
0, where it is seldom chosen for what is new, to 1."""
LANDMARKS = 2048
"""With more texts than this, the others are described by their likeness to so many of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Views:
    """Texts as the learner sees them, a row for each."""

    meaning: Matrix
    letters: Matrix
    second: Matrix | None = None
    """Meaning, as a second encoder sees it; zeros for a text that it does not know."""

    def rows(self, which: Indices) -> Views:
        """Some of them."""
        second = None if self.second is None else self.second[which]
        return Views(meaning=self.meaning[which], letters=self.letters[which], second=second)

    def moved(self, meaning: Matrix, second: Matrix | None, rows: Matrix) -> Views:
        """With `meaning` and `second` added where `rows` is 1; what is not known stays so."""
        moved = None
        if self.second is not None and second is not None:
            moved = self.second + rows * self.second.any(axis=1, keepdims=True) * second
        return Views(meaning=self.meaning + rows * meaning, letters=self.letters, second=moved)

    def with_more(self, others: Views) -> Views:
        """These, and then others; without a second encoder if either has none."""
        second = None
        if self.second is not None and others.second is not None:
            second = np.vstack([self.second, others.second])
        return Views(
            meaning=np.vstack([self.meaning, others.meaning]),
            letters=np.vstack([self.letters, others.letters]),
            second=second,
        )


class Learner:
    """Scores of agents for texts, learnt from `texts`, of which `owners` tells whose each is.

    `weights` is how much each text is believed, 1 being fully. `left_out` has a row for every text:
    the scores it would get had it not been learnt.
    """

    def __init__(self, texts: Views, owners: Indices, weights: Matrix, *, agents: int) -> None:
        self._first = _Lens(texts.meaning, owners)
        self._second = None if texts.second is None else _Lens(texts.second, owners)
        count = len(owners)
        chosen = np.arange(count)
        if count > LANDMARKS:
            chosen = np.unique(np.linspace(0, count - 1, LANDMARKS).astype(np.intp))
        self._landmarks = self._seen(texts.rows(chosen))
        likeness = self._likeness(self._seen(texts))
        targets = np.zeros((count, agents), dtype=np.float32)
        targets[np.arange(count), owners] = 1.0
        weights = _evened(weights, weights @ targets)[owners] * weights
        share = weights @ targets / weights.sum()
        targets = (targets - share) / (1 - share) ** EVEN
        if count > LANDMARKS:
            self._weights, self.left_out = _by_landmarks(likeness, chosen, targets, weights)
        else:
            self._weights, self.left_out = _exactly(likeness, targets, weights)

    def arrays(self) -> dict[str, Matrix]:
        """The arrays that `restored` needs, without `left_out`."""
        known = self._landmarks
        found = {"weights": self._weights, "letters": known.letters, "meaning": known.meaning}
        found |= {f"first.{name}": each for name, each in self._first.arrays().items()}
        if self._second is not None and known.second is not None:
            found["second"] = known.second
            found |= {f"second.{name}": each for name, each in self._second.arrays().items()}
        return found

    @classmethod
    def restored(
        cls, arrays: Mapping[str, Matrix], *, agents: int, sizes: tuple[int, int, int | None]
    ) -> Learner:
        """A learner of what `arrays` gave, with vectors of these `sizes`: of meaning, of letters,
        of the second encoder. `ValueError` or `KeyError` if they do not fit together."""
        self = cls.__new__(cls)
        count = len(arrays["weights"])
        shapes = {"weights": (count, agents), "meaning": (count, sizes[0])}
        shapes |= {"letters": (count, sizes[1]), "second": (count, sizes[2] or 0)}
        for name, shape in shapes.items():
            if (name != "second" or sizes[2] is not None) and arrays[name].shape != shape:
                raise ValueError(f"{name} is {arrays[name].shape}, not {shape}")
        self._weights = arrays["weights"]
        self._first = _Lens.restored(arrays, "first", sizes[0])
        self._second = None if sizes[2] is None else _Lens.restored(arrays, "second", sizes[2])
        self._landmarks = Views(
            meaning=arrays["meaning"],
            letters=arrays["letters"],
            second=None if sizes[2] is None else arrays["second"],
        )
        self.left_out = np.zeros((0, agents), dtype=np.float32)
        return self

    def scores(self, texts: Views) -> Matrix:
        """A row for every text: how much speaks for each agent, 1 at most or a little more."""
        seen = self._seen(texts)
        foreign = 1 - np.clip(self.shared_letters(texts) / SHARED, 0, 1)
        likeness = self._likeness(seen) * (1 + LETTERS * foreign)
        result: Matrix = likeness @ self._weights
        return result

    def shared_letters(self, texts: Views) -> Matrix:
        """A row for every text: its largest likeness by letters to a text that was learnt."""
        shared: Matrix = (texts.letters @ self._landmarks.letters.T).max(axis=1, keepdims=True)
        return shared

    def _seen(self, texts: Views) -> Views:
        second = None
        if self._second is not None and texts.second is not None:
            second = self._second.seen(texts.second)
        return Views(meaning=self._first.seen(texts.meaning), letters=texts.letters, second=second)

    def _likeness(self, texts: Views) -> Matrix:
        known = self._landmarks
        likeness = _near(texts.meaning, known.meaning)
        if texts.second is not None and known.second is not None:
            one, other = _parts(texts.second), _parts(known.second)
            likeness *= np.sqrt(1 - one)[:, None]
            likeness *= np.sqrt(1 - other)
            nearness = _near(texts.second, known.second)
            nearness *= np.sqrt(one)[:, None]
            nearness *= np.sqrt(other)
            likeness += nearness
        likeness += LETTERS * (texts.letters @ known.letters.T)
        return likeness


class _Lens:
    """An encoder's vectors as they are compared: from the middle of the texts, and stretched."""

    def __init__(self, vectors: Matrix, owners: Indices) -> None:
        known = vectors.any(axis=1)
        if known.any():
            vectors, owners = vectors[known], owners[known]
        self._centre, self._emphasis = _emphasis(vectors, owners)

    def arrays(self) -> dict[str, Matrix]:
        """What `restored` needs."""
        return {"centre": self._centre, "emphasis": self._emphasis}

    @classmethod
    def restored(cls, arrays: Mapping[str, Matrix], name: str, size: int) -> _Lens:
        """As `Learner.restored`."""
        self = cls.__new__(cls)
        self._centre, self._emphasis = arrays[f"{name}.centre"], arrays[f"{name}.emphasis"]
        if self._centre.shape != (size,) or self._emphasis.shape != (size, size):
            raise ValueError(f"the lens {name} has another size")
        return self

    def seen(self, vectors: Matrix) -> Matrix:
        """Rows of length 1; zeros stay zeros."""
        seen = (vectors - self._centre) @ self._emphasis
        lengths = np.linalg.norm(seen, axis=1, keepdims=True)
        known = vectors.any(axis=1, keepdims=True)
        seen = np.where(known, seen / np.maximum(lengths, 1e-9), 0)
        return np.asarray(seen, dtype=np.float32)


def _near(texts: Matrix, others: Matrix) -> Matrix:
    near: Matrix = texts @ others.T
    near -= 1
    np.minimum(near, 0, out=near)
    near *= 2 * WIDTH
    return np.exp(near, out=near)


def _parts(second: Matrix) -> Matrix:
    """How much the second encoder counts for each text.

    The likeness of two texts has the root of both parts: so it stays one that a regression can be
    made on, also where only one of them is known.
    """
    return np.where(second.any(axis=1), np.float32(SECOND), np.float32(0))


def _evened(weights: Matrix, totals: Matrix) -> Matrix:
    """What to multiply each agent's weights with, so that none has more than all others together.

    An agent with nearly all texts would be what is usual, and never what stands out.
    """
    others = np.maximum(weights.sum() - totals, 1.0)
    evened = np.minimum(1.0, others / np.maximum(totals, 1e-9))
    return np.asarray(evened, dtype=np.float32)


def _emphasis(meaning: Matrix, owners: Indices) -> tuple[Matrix, Matrix]:
    """The middle of the texts, and a map that stretches the directions in which they differ.

    Every agent counts alike: the middle is not where the one with the most texts is.
    """
    parts = (1 / np.bincount(owners)[owners]).astype(np.float32)
    parts /= parts.sum()
    middle = parts @ meaning
    centre = middle * (len(meaning) / (len(meaning) + FEW))
    off = (meaning - middle) * np.sqrt(parts)[:, None]
    if len(off) < off.shape[1]:
        _, lengths, directions = np.linalg.svd(off, full_matrices=False)
        variance = lengths**2
    else:
        variance, columns = np.linalg.eigh(off.T @ off)
        directions = columns.T
    share = np.maximum(variance, 0) / max(float(variance.sum()), 1e-9)
    stretch = (share + FLOOR) ** EMPHASIS - FLOOR**EMPHASIS
    emphasis = (directions.T * stretch) @ directions
    emphasis[np.diag_indices_from(emphasis)] += FLOOR**EMPHASIS
    return centre, emphasis.astype(np.float32)


def _exactly(likeness: Matrix, targets: Matrix, weights: Matrix) -> tuple[Matrix, Matrix]:
    doubted = likeness.copy()
    doubted[np.diag_indices_from(doubted)] += RIDGE / weights
    inverse: Matrix = np.linalg.inv(doubted)
    solution: Matrix = inverse @ targets
    left_out = targets - solution / np.diag(inverse)[:, None]
    return solution, np.asarray(left_out, dtype=np.float32)


def _by_landmarks(
    likeness: Matrix, chosen: Indices, targets: Matrix, weights: Matrix
) -> tuple[Matrix, Matrix]:
    among = likeness[chosen].astype(np.float64)
    weighted = likeness * weights[:, None]
    normal = weighted.T @ likeness + RIDGE * among
    normal[np.diag_indices_from(normal)] += 1e-3
    inverse: Matrix = np.linalg.inv(normal).astype(np.float32)
    solution = inverse @ (weighted.T @ targets)
    leverage = np.einsum("ij,ij->i", weighted @ inverse, likeness)
    fitted = likeness @ solution
    residual = (targets - fitted) / np.maximum(1 - leverage, 1e-3)[:, None]
    left_out = np.asarray(targets - residual, dtype=np.float32)
    return np.asarray(solution, dtype=np.float32), left_out


# From the learner's scores to confidence: how often the agent with the best score is right.
#
# A team with examples calibrates itself: for every text that was learnt, the learner tells the
# scores that it would have got as a stranger, and these are what scores of real requests will be
# like. A team that is known by descriptions has no requests to learn that from. Its confidence
# was fitted once, by ``benchmarks/routing_calibration.py``, on the validation parts of two public
# sets of requests (CLINC150 and xSID, English and Chinese) with teams of 3 to 150 agents that are
# described in a sentence or named, one request in ten being for nobody.


KEPT = 0.95
"""The share of requests in scope that must be above the line."""

_USUAL_LINE = -0.1
_USUAL_SHARPNESS = 12.0
_USUAL_COUNT = 20
"""What is usual counts like so many texts. Measured on validation parts of public intent sets."""
_SHARPNESSES = (4, 6, 8, 10, 12, 15, 20, 25, 30, 40)


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """The result of judging the scores of one request."""

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
