"""Computes BERT-style sentence encoders with numpy.

The small sizes of all-MiniLM, gte, bge and e5 have this architecture. The texts of a batch are
concatenated without padding. The dense layers process one long row of tokens, and the attention
layers process texts of equal length together. So the vector of a text does not depend on the other
texts of the batch.
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
from ekiden.integrations.bert_encoder.wordpiece import TokenIds, WordPiece

if TYPE_CHECKING:
    from numpy.typing import NDArray

Matrix: TypeAlias = "NDArray[np.float32]"

_MAX_UNKNOWN = 0.3
"""Above this share of unknown words, the encoder does not know the language of a text."""
_MAX_FOREIGN = 0.1
"""The limit for characters of another script. It is low: the Latin words in a text of another
script are often only names."""
_MAX_CONTINUED = 0.35
"""The limit for tokens that continue a word. One English request in a hundred is above it, and most
German and Spanish requests are."""
_BATCH_TOKENS = 1024


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
        EncoderWeights.check(self._file, self._shape, vocabulary=self._tokens.size)
        self.name = f"{folder.name.rpartition('__')[2]}/{self._file.mark}"
        self.dimensions = self._shape.width
        self._weights: EncoderWeights | None = None
        self._lock = threading.Lock()

    def embed(self, texts: Sequence[str]) -> Matrix:
        """See `Embedder.embed`. Only the first 126 tokens of a long text count."""
        vectors = np.zeros((len(texts), self.dimensions), dtype=np.float32)
        tokens = [self._tokens.tokens(text, limit=self._shape.limit).ids for text in texts]
        filled = [row for row, ids in enumerate(tokens) if len(ids) > 2]
        filled.sort(key=lambda row: len(tokens[row]))
        for rows in _batches(filled, tokens):
            vectors[rows] = self._encode([tokens[row] for row in rows])
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        vectors /= np.maximum(lengths, 1e-9)
        return vectors

    def knows(self, texts: Sequence[str]) -> NDArray[np.bool_]:
        """Return for each text whether most of its words are in the vocabulary.

        An English encoder also returns a vector for a Chinese text, but this vector is meaningless.
        """
        tokens = (self._tokens.tokens(text, limit=self._shape.limit) for text in texts)
        return np.array([_is_known(each) for each in tokens], dtype=np.bool_)

    def _load(self) -> EncoderWeights:
        with self._lock:
            if self._weights is None:
                self._weights = EncoderWeights.read(self._file, self._shape)
            return self._weights

    def _encode(self, texts: list[tuple[int, ...]]) -> Matrix:
        """The vectors of texts that are sorted by length."""
        weights = self._load()
        lengths = [len(text) for text in texts]
        ids = np.concatenate([np.array(text, dtype=np.intp) for text in texts])
        positions = np.concatenate([np.arange(length) for length in lengths])
        state = weights.words[ids]
        state += weights.positions[positions]
        state = _normalize(state, weights.norm, self._shape.epsilon)
        for layer in weights.layers:
            state = self._apply(layer, state, lengths)
        starts = np.cumsum([0, *lengths[:-1]])
        if self._shape.pooling == "cls":
            return np.asarray(state[starts], dtype=np.float32)
        sums = np.add.reduceat(state, starts, axis=0)
        return np.asarray(sums / np.array(lengths, dtype=np.float32)[:, None], dtype=np.float32)

    def _apply(self, layer: Layer, state: Matrix, lengths: list[int]) -> Matrix:
        epsilon = self._shape.epsilon
        attended = _attention(_dense(state, layer.qkv), lengths, self._shape.heads)
        attended = _dense(attended, layer.attention_output)
        attended += state
        attended = _normalize(attended, layer.attention_norm, epsilon)
        result = _dense(_gelu(_dense(attended, layer.intermediate)), layer.output)
        result += attended
        return _normalize(result, layer.output_norm, epsilon)


def _is_known(text: TokenIds) -> bool:
    return (
        len(text.ids) > 2
        and text.unknown <= _MAX_UNKNOWN
        and text.foreign <= _MAX_FOREIGN
        and text.continued <= _MAX_CONTINUED
    )


def _batches(rows: list[int], tokens: Sequence[tuple[int, ...]]) -> Iterator[list[int]]:
    batch: list[int] = []
    count = 0
    for row in rows:
        if batch and count + len(tokens[row]) > _BATCH_TOKENS:
            yield batch
            batch, count = [], 0
        batch.append(row)
        count += len(tokens[row])
    if batch:
        yield batch


def _dense(state: Matrix, dense: Dense) -> Matrix:
    result: Matrix = state @ dense.matrix
    result += dense.bias
    return result


def _attention(qkv: Matrix, lengths: list[int], heads: int) -> Matrix:
    """Multi-head attention within each text; `qkv` has the scaled queries, keys and values."""
    width = qkv.shape[1] // 3
    result = np.empty((len(qkv), width), dtype=np.float32)
    start = 0
    for length, group in groupby(lengths):
        count = sum(1 for _ in group)
        end = start + count * length
        parts = qkv[start:end].reshape(count, length, 3, heads, width // heads)
        query, key, value = np.ascontiguousarray(parts.transpose(2, 0, 3, 1, 4))
        scores = query @ key.swapaxes(-1, -2)
        scores -= scores.max(axis=-1, keepdims=True)  # Without this, `exp` could overflow.
        np.exp(scores, out=scores)
        scores /= scores.sum(axis=-1, keepdims=True)
        mixed = (scores @ value).transpose(0, 2, 1, 3)
        result[start:end] = mixed.reshape(end - start, width)
        start = end
    return result


def _normalize(state: Matrix, norm: Norm, epsilon: float) -> Matrix:
    state -= state.mean(axis=1, keepdims=True)
    variance = np.einsum("ij,ij->i", state, state)[:, None] / np.float32(state.shape[1])
    state /= np.sqrt(variance + np.float32(epsilon))
    state *= norm.scale
    state += norm.shift
    return state


_ERFC = tuple(
    np.float32(value / 2)
    for value in (1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592)
)
_ERFC_STEP = np.float32(0.3275911 / np.sqrt(2))


def _gelu(values: Matrix) -> Matrix:
    """The activation function GELU.

    numpy has no error function. This is the polynomial 7.1.26 of Abramowitz and Stegun, whose error
    is below 1e-7. All steps are in place, because temporary arrays would take most of the time.
    """
    size = np.abs(values)
    step = size * _ERFC_STEP
    step += 1
    np.reciprocal(step, out=step)
    tail = step * _ERFC[0]
    for factor in _ERFC[1:]:
        tail += factor
        tail *= step
    np.square(values, out=step)
    step *= np.float32(-0.5)
    np.exp(step, out=step)
    tail *= step
    tail *= size
    result: Matrix = np.maximum(values, 0)
    result -= tail
    return result
