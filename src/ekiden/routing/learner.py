"""Learns from a few texts which agent fits a request, and how reliable its scores are.

The similarity of two texts has two parts. Similarity by meaning is a Gaussian kernel of the
distance of their embeddings; with two encoders, it is the mean of two kernels. Similarity by
letters is the cosine of their hashed pieces of words. Kernel ridge regression gives every agent a
score. It has a closed form, so learning is fast and deterministic. It also gives the leave-one-out
score of every text, from which the calibration is computed.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeAlias

import numpy as np

from ekiden.core.dataclass import dataclass
from ekiden.embeddings.cache_folder import BAD_FILE, cache_folder, read_arrays, write_arrays

if TYPE_CHECKING:
    from numpy.typing import NDArray


Matrix: TypeAlias = "NDArray[np.float32]"
Indices: TypeAlias = "NDArray[np.intp]"

WIDTH = 1.0
"""The precision of the Gaussian kernel. With a larger value, only closer texts count as similar."""
SECOND = 0.5
"""The share of the second encoder in similarity by meaning, for texts that this encoder knows."""
LETTERS = 0.25
"""The weight of similarity by letters."""
SHARED = 0.2
"""A text with a lower similarity by letters to all learnt texts uses other words, and may be in
another language. For such a text, the weight of letters is added to the weight of meaning."""
RIDGE = 0.05
"""The regularization of the regression."""
EMPHASIS = 0.25
"""Directions in which the texts differ are stretched by their variance to the power of this
value."""
FLOOR = 0.01
"""The share of variance that is added to every direction, so that no direction vanishes."""
FEW = 20
"""With this many texts, half of their mean is subtracted from the vectors. With more texts, a
larger part is subtracted."""
EVEN = 0.5
"""How much the scores of an agent with most of the texts are raised, from 0 to 1. With 0, such an
agent is seldom chosen for new requests."""
LANDMARKS = 2048
"""The maximum number of texts in the kernel. With more texts, this many of them are landmarks, and
all texts are represented by their similarity to the landmarks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Views:
    """The vectors of texts, with a row for each text."""

    meaning: Matrix
    letters: Matrix
    second: Matrix | None = None
    """The vectors of the second encoder. The row of a text that this encoder does not know is
    zero."""

    def rows(self, which: Indices) -> Views:
        """The rows at these positions."""
        second = None if self.second is None else self.second[which]
        return Views(meaning=self.meaning[which], letters=self.letters[which], second=second)

    def moved(self, meaning: Matrix, second: Matrix | None, rows: Matrix) -> Views:
        """A copy with `meaning` and `second` added to the rows in which `rows` is 1. Zero vectors
        stay zero."""
        moved = None
        if self.second is not None and second is not None:
            moved = self.second + rows * self.second.any(axis=1, keepdims=True) * second
        return Views(meaning=self.meaning + rows * meaning, letters=self.letters, second=moved)

    def with_more(self, others: Views) -> Views:
        """These rows, followed by those of `others`. The result has vectors of the second encoder
        only if these rows and `others` have them."""
        second = None
        if self.second is not None and others.second is not None:
            second = np.vstack([self.second, others.second])
        return Views(
            meaning=np.vstack([self.meaning, others.meaning]),
            letters=np.vstack([self.letters, others.letters]),
            second=second,
        )


class Learner:
    """Scores agents for texts. It learns from `texts`; `owners` has the agent of each text.

    `weights` are the weights of the texts, up to 1. `left_out` has the leave-one-out scores, with a
    row for every text.
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
        """The learnt arrays, from which `restored` creates the object again."""
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
        """Create a learner from the result of `arrays`. The learner has no `left_out`.

        `sizes` has the lengths of the vectors for meaning, for letters and of the second encoder.
        Raises `ValueError` or `KeyError` if the arrays do not fit together.
        """
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
        """The scores of the agents, with a row for every text. A score is at most about 1."""
        seen = self._seen(texts)
        foreign = 1 - np.clip(self.shared_letters(texts) / SHARED, 0, 1)
        likeness = self._likeness(seen) * (1 + LETTERS * foreign)
        result: Matrix = likeness @ self._weights
        return result

    def shared_letters(self, texts: Views) -> Matrix:
        """The highest similarity by letters to a learnt text, with a row for every text."""
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
    """Transforms the vectors of an encoder before comparison: centers and stretches them."""

    def __init__(self, vectors: Matrix, owners: Indices) -> None:
        known = vectors.any(axis=1)
        if known.any():
            vectors, owners = vectors[known], owners[known]
        self._centre, self._emphasis = _emphasis(vectors, owners)

    def arrays(self) -> dict[str, Matrix]:
        """The learnt arrays, from which `restored` creates the object again."""
        return {"centre": self._centre, "emphasis": self._emphasis}

    @classmethod
    def restored(cls, arrays: Mapping[str, Matrix], name: str, size: int) -> _Lens:
        """See `Learner.restored`."""
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
    """The share of the second encoder for each text.

    The similarity of two texts is weighted with the square root of both shares, so that the kernel
    stays positive semi-definite even if the encoder knows only one of the texts.
    """
    return np.where(second.any(axis=1), np.float32(SECOND), np.float32(0))


def _evened(weights: Matrix, totals: Matrix) -> Matrix:
    """Factors for the agents' weights, so that no agent has more than all others together.

    The mean is subtracted, so an agent with nearly all texts would never stand out from it.
    """
    others = np.maximum(weights.sum() - totals, 1.0)
    evened = np.minimum(1.0, others / np.maximum(totals, 1e-9))
    return np.asarray(evened, dtype=np.float32)


def _emphasis(meaning: Matrix, owners: Indices) -> tuple[Matrix, Matrix]:
    """The center of the texts, and a matrix that stretches the directions in which they differ.

    Every agent has the same weight, so the center does not depend on which agent has most texts.
    """
    parts = (1 / np.bincount(owners)[owners]).astype(np.float32)
    parts /= parts.sum()
    middle = parts @ meaning
    centre = middle * (len(meaning) / (len(meaning) + FEW))
    off = (meaning - middle) * np.sqrt(parts)[:, None]
    # Both give the same directions; each is the cheaper one for its shape.
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
    # The closed form of the leave-one-out scores, without learning once more for each text.
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


# Confidence: how often the agent with the best score is right.
#
# A team with examples calibrates itself: the leave-one-out scores of its texts are like the scores
# of real requests. A team that has only descriptions has no requests for that. Its confidence was
# fitted once, by ``benchmarks/routing_calibration.py``, on the validation parts of two public sets
# of requests (CLINC150 and xSID, English and Chinese), with teams of 3 to 150 agents that have a
# sentence or a name, and with one request in ten that fits no agent.


KEPT = 0.95
"""The share of requests in scope that must be accepted. The calibration sets its threshold (the
"line") accordingly."""

_USUAL_LINE = -0.1
_USUAL_SHARPNESS = 12.0
_USUAL_COUNT = 20
"""The usual values count like this many texts. Measured on validation parts of public intent
sets."""
_SHARPNESSES = (4, 6, 8, 10, 12, 15, 20, 25, 30, 40)


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """The calibrated scores of one request."""

    probable: Matrix
    """The probability of each agent. 1 minus their sum is the probability that no agent fits."""
    lead: float
    """The distance to the threshold. If it is 0 or more, the request is in scope."""


class Calibration(Protocol):
    """Turns scores into probabilities."""

    def judge(self, agents: Matrix, others: Matrix) -> Judgement:
        """Judge one request by the scores of the agents and of the general texts (`others`), which
        fit no agent."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class TaughtCalibration:
    """The calibration of a team with examples: a soft-max, and a threshold for requests in
    scope."""

    sharpness: float
    line: float
    """The lead over general texts that an agent needs (the threshold). It is below 0 if an agent's
    requests are often similar to general requests. A choice with a lead below 0 never gets a high
    probability."""

    @classmethod
    def usual(cls) -> TaughtCalibration:
        """The calibration of a team without texts."""
        return cls(sharpness=_USUAL_SHARPNESS, line=_USUAL_LINE)

    def judge(self, agents: Matrix, others: Matrix) -> Judgement:
        """See `Calibration.judge`."""
        nobody = max(float(others.max(initial=0.0)), 0.0)
        powers = np.append(agents, nobody + max(self.line, 0.0)).astype(np.float32)
        powers = np.exp(self.sharpness * (powers - powers.max()))
        probable = np.asarray(powers / powers.sum(), dtype=np.float32)[:-1]
        return Judgement(probable=probable, lead=float(agents.max()) - nobody - self.line)


def calibrate(left_out: Matrix, owners: Indices) -> TaughtCalibration:
    """Compute the calibration from leave-one-out scores and the agents of the texts. The last
    column of `left_out` has the scores of general texts."""
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
    """The lead that the share `KEPT` of the texts exceeds; every agent has the same weight."""
    order = np.argsort(leads)
    below = np.cumsum(weights[order]) - weights[order] / 2
    return float(np.interp(1 - KEPT, below, leads[order]))


def _surprise(scores: Matrix, owners: Indices, sharpness: float) -> float:
    powers = sharpness * (scores - scores.max(axis=1, keepdims=True))
    own = powers[np.arange(len(owners)), owners]
    return float(np.mean(np.log(np.exp(powers).sum(axis=1)) - own))


RIGHT = (3.09, 9.49, 5.08, -0.36, -2.11, 0.42)
IN_SCOPE = (4.73, 2.46, 8.78, -0.17, -1.65, 2.02)
"""The weights of `DescribedCalibration.features`, followed by the constant, for the probability
that the request is in scope. `RIGHT` has the weights for the probability that the best agent is
right."""
LINE = 0.78
"""The minimum probability that a request is in scope. The features of real teams vary more than
those of the teams to which the weights were fitted. With this value, requests about a team's own
subjects are seldom refused.
"""

FITTED = 150
"""The size of the largest fitted team. In a larger team the best score is higher by chance. So a
request needs an additional lead: the logarithm of the ratio of the sizes. With 336 public agent
files, 19 of 24 requests that fit no agent are refused. Of 40 requests that fit an agent, 3 are
refused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedCalibration:
    """The calibration of a team that has only descriptions: two logistic functions of the same
    features."""

    examples: float = 0.0
    """The mean number of examples per agent, divided by the minimum for `TaughtCalibration`."""

    def features(self, agents: Matrix, others: Matrix) -> tuple[float, ...]:
        """The best score, its leads over the second agent and over other subjects, the logarithm of
        the team's size, and the examples. The size matters, because the best score of many agents
        is high by chance."""
        ranked = np.sort(agents)[::-1]
        best = float(ranked[0])
        second = float(ranked[1]) if len(ranked) > 1 else 0.0
        other = float(others.max(initial=0.0))
        return best, best - second, best - other, math.log(len(agents)), self.examples

    def judge(self, agents: Matrix, others: Matrix) -> Judgement:
        """See `Calibration.judge`."""
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
    """The logistic function of the weighted sum of the features. The last weight is the
    constant."""
    *slopes, constant = weights
    return 1 / (1 + math.exp(-sum(w * f for w, f in zip(slopes, features, strict=True)) - constant))


def _logit(probability: float) -> float:
    return math.log(probability / (1 - probability))


MOST_BYTES = 256 * 1024 * 1024
"""The maximum size of all files together. The least recently used files are removed first."""
_SUFFIX = ".index"


def index_folder() -> Path:
    """The folder in which the files are stored."""
    return cache_folder("routing")


def read_index(key: str) -> dict[str, Matrix] | None:
    """The stored arrays for this key; `None` if there is no valid file."""
    path = index_folder() / f"{key}{_SUFFIX}"
    try:
        if path.stat().st_size > MOST_BYTES:
            return None
        arrays = read_arrays(path, key).arrays
    except BAD_FILE:
        return None
    with suppress(OSError):
        os.utime(path)
    # The sum is finite only if all numbers are.
    are_numbers = all(
        each.dtype == np.float32 and np.isfinite(each.sum()) for each in arrays.values()
    )
    return arrays if are_numbers else None


def write_index(key: str, arrays: Mapping[str, Matrix]) -> None:
    """Store the arrays atomically in one file. If this is impossible, nothing is stored."""
    if sum(each.nbytes for each in arrays.values()) > MOST_BYTES // 2:
        return
    folder = index_folder()
    with suppress(OSError):
        plain = {name: np.asarray(each, dtype="<f4") for name, each in arrays.items()}
        write_arrays(folder / f"{key}{_SUFFIX}", key, plain)
        _thin_out(folder)


def _thin_out(folder: Path) -> None:
    """Remove the least recently used files, and temporary files of killed processes."""
    found = []
    for entry in os.scandir(folder):
        with suppress(OSError):
            if entry.is_file(follow_symlinks=False) and entry.name.endswith((_SUFFIX, ".part")):
                stat = entry.stat()
                found.append((stat.st_mtime, stat.st_size, entry.path))
    total = 0
    for _, size, path in sorted(found, reverse=True):
        total += size
        if total > MOST_BYTES:
            with suppress(OSError):
                os.unlink(path)
