"""Learning who takes which request from a few texts: regression in a space of likenesses.

Two texts are alike by meaning (a Gaussian of the distance of their embeddings; with two encoders,
the mean of both) and by letters (the cosine of their hashed pieces). Ridge regression on these
likenesses gives every agent a score. It has a closed form, so learning takes a moment, gives the
same result every time, and tells for every text what the score would have been without it. That is
what the calibration is made from.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

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
        """What `restored` needs; not `left_out`."""
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
        shared = (seen.letters @ self._landmarks.letters.T).max(axis=1, keepdims=True)
        foreign = 1 - np.clip(shared / SHARED, 0, 1)
        likeness = self._likeness(seen) * (1 + LETTERS * foreign)
        result: Matrix = likeness @ self._weights
        return result

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
