"""Sentence encoders of BERT's kind, computed with numpy from a folder of weights.

all-MiniLM, gte, bge and e5 in their small sizes have this shape. The texts of a batch are put one
after the other without padding: the dense layers see one long row of pieces, and only attention
looks at texts of equal length together. So a text's vector does not depend on its neighbours.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from ekiden.integrations.bert_encoder.weights import (
    Dense,
    EncoderWeights,
    Layer,
    Norm,
    SafeTensors,
    Shape,
)
from ekiden.integrations.bert_encoder.wordpiece import Pieces, WordPiece

if TYPE_CHECKING:
    from numpy.typing import NDArray

Matrix: TypeAlias = "NDArray[np.float32]"

_UNKNOWN = 0.3
"""With more words that are unknown, a text is not understood."""
_FOREIGN = 0.1
"""With more in another script, it is not either: what is Latin in it is then often a name."""
_BROKEN = 0.35
"""With more pieces that only go on with a word, it is in another language: one English request in
a hundred has so many, and most German and Spanish ones."""
_AT_ONCE = 1024
"""Pieces in a batch."""


class BertEmbedder:
    """The encoder in `folder`. The folder has ``config.json``, ``model.safetensors``, a vocabulary
    in ``vocab.txt`` or ``tokenizer.json``, and the pooling mode in ``1_Pooling/config.json``.

    Raises `UserError` with the reason if the folder has no such encoder. The weights are loaded
    once, with the first text. For example::

        BertEmbedder(Path("all-MiniLM-L6-v2")).embed(["book a flight"])
    """

    def __init__(self, folder: Path) -> None:
        self._shape = Shape.from_folder(folder)
        self._tokens = WordPiece.from_folder(folder)
        self._file = SafeTensors(folder / "model.safetensors")
        EncoderWeights.check(self._file, self._shape, pieces=self._tokens.size)
        self.name = f"{folder.name.rpartition('__')[2]}/{self._file.mark}"
        self.dimensions = self._shape.width
        self._weights: EncoderWeights | None = None
        self._lock = threading.Lock()

    def embed(self, texts: Sequence[str]) -> Matrix:
        """See `Embedder.embed`. Only the first 126 tokens of a long text count."""
        vectors = np.zeros((len(texts), self.dimensions), dtype=np.float32)
        pieces = [self._tokens.pieces(text, limit=self._shape.limit).numbers for text in texts]
        filled = [row for row, own in enumerate(pieces) if len(own) > 2]
        filled.sort(key=lambda row: len(pieces[row]))
        for rows in _batches(filled, pieces):
            vectors[rows] = self._encoded([pieces[row] for row in rows])
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        vectors /= np.maximum(lengths, 1e-9)
        return vectors

    def knows(self, texts: Sequence[str]) -> NDArray[np.bool_]:
        """For each text: whether most of its words are in the vocabulary.

        An English encoder also returns a vector for a Chinese text, but this vector is meaningless.
        """
        found = (self._tokens.pieces(text, limit=self._shape.limit) for text in texts)
        return np.array([_is_known(each) for each in found], dtype=np.bool_)

    def _loaded(self) -> EncoderWeights:
        with self._lock:
            if self._weights is None:
                self._weights = EncoderWeights.read(self._file, self._shape)
            return self._weights

    def _encoded(self, texts: list[tuple[int, ...]]) -> Matrix:
        """Of texts in the order of their lengths."""
        weights = self._loaded()
        lengths = [len(text) for text in texts]
        numbers = np.concatenate([np.array(text, dtype=np.intp) for text in texts])
        places = np.concatenate([np.arange(length) for length in lengths])
        state = weights.words[numbers]
        state += weights.places[places]
        state = _normed(state, weights.norm, self._shape.epsilon)
        for layer in weights.layers:
            state = self._through(layer, state, lengths)
        starts = np.cumsum([0, *lengths[:-1]])
        if self._shape.pooling == "cls":
            return np.asarray(state[starts], dtype=np.float32)
        sums = np.add.reduceat(state, starts, axis=0)
        return np.asarray(sums / np.array(lengths, dtype=np.float32)[:, None], dtype=np.float32)

    def _through(self, layer: Layer, state: Matrix, lengths: list[int]) -> Matrix:
        epsilon = self._shape.epsilon
        seen = _attended(_dense(state, layer.asking), lengths, self._shape.heads)
        attended = _dense(seen, layer.attended)
        attended += state
        attended = _normed(attended, layer.after_attention, epsilon)
        result = _dense(_gelu(_dense(attended, layer.wide)), layer.narrow)
        result += attended
        return _normed(result, layer.after_all, epsilon)


def _is_known(text: Pieces) -> bool:
    return (
        len(text.numbers) > 2
        and text.unknown <= _UNKNOWN
        and text.foreign <= _FOREIGN
        and text.broken <= _BROKEN
    )


def _batches(rows: list[int], pieces: Sequence[tuple[int, ...]]) -> Iterator[list[int]]:
    batch: list[int] = []
    count = 0
    for row in rows:
        if batch and count + len(pieces[row]) > _AT_ONCE:
            yield batch
            batch, count = [], 0
        batch.append(row)
        count += len(pieces[row])
    if batch:
        yield batch


def _dense(state: Matrix, dense: Dense) -> Matrix:
    result: Matrix = state @ dense.matrix
    result += dense.bias
    return result


def _attended(asking: Matrix, lengths: list[int], heads: int) -> Matrix:
    """What every piece takes from the others of its text; `asking` has queries, keys, values.

    The queries are scaled already.
    """
    width = asking.shape[1] // 3
    result = np.empty((len(asking), width), dtype=np.float32)
    start = 0
    for length, group in groupby(lengths):
        count = sum(1 for _ in group)
        end = start + count * length
        parts = asking[start:end].reshape(count, length, 3, heads, width // heads)
        query, key, value = np.ascontiguousarray(parts.transpose(2, 0, 3, 1, 4))
        heed = query @ key.swapaxes(-1, -2)
        heed -= heed.max(axis=-1, keepdims=True)
        np.exp(heed, out=heed)
        heed /= heed.sum(axis=-1, keepdims=True)
        taken = (heed @ value).transpose(0, 2, 1, 3)
        result[start:end] = taken.reshape(end - start, width)
        start = end
    return result


def _normed(state: Matrix, norm: Norm, epsilon: float) -> Matrix:
    state -= state.mean(axis=1, keepdims=True)
    spread = np.einsum("ij,ij->i", state, state)[:, None] / np.float32(state.shape[1])
    state /= np.sqrt(spread + np.float32(epsilon))
    state *= norm.scale
    state += norm.shift
    return state


_ERFC = tuple(
    np.float32(value / 2)
    for value in (1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592)
)
_ERFC_STEP = np.float32(0.3275911 / np.sqrt(2))


def _gelu(values: Matrix) -> Matrix:
    """Each times the part of a normal distribution that is below it.

    The part beyond the absolute value is the polynomial 7.1.26 of Abramowitz and Stegun, which is
    right to 1e-7; numpy has none.
    """
    size = np.abs(values)
    step = size * _ERFC_STEP
    step += 1
    np.reciprocal(step, out=step)
    beyond = step * _ERFC[0]
    for factor in _ERFC[1:]:
        beyond += factor
        beyond *= step
    np.square(values, out=step)
    step *= np.float32(-0.5)
    np.exp(step, out=step)
    beyond *= step
    beyond *= size
    result: Matrix = np.maximum(values, 0)
    result -= beyond
    return result
