"""An embedder for the letters of a text, which embeddings of meaning lose.

Embeddings of meaning have no useful vectors for names, product codes and rare words. Two texts that
share such words share pieces of words, so their vectors here are similar.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING
from zlib import crc32

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

_WORD = re.compile(r"[^\W_]+")
_FIRST_WITHOUT_SPACES = "\u2e80"
"""The first character of scripts without spaces between words."""

MAX_CHARACTERS = 2_000


class HashingEmbedder:
    """Hashes pieces of words into a vector. It needs no model and gives the same result everywhere.

    For example::

        HashingEmbedder().embed(["error TS2304", "TS2304 again"])
    """

    def __init__(self, dimensions: int = 2048) -> None:
        self.dimensions = dimensions
        self.name = f"hashing-1/{dimensions}"

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """See `Embedder.embed`. Only the first 2,000 characters count."""
        vectors = np.zeros((len(texts), self.dimensions), dtype=np.float32)
        for row, text in zip(vectors, texts, strict=True):
            hashes = np.fromiter(map(_hash, _pieces(text)), dtype=np.int64)
            signs = np.where(hashes & 1, 1.0, -1.0).astype(np.float32)
            np.add.at(row, (hashes >> 1) % self.dimensions, signs)
        vectors = np.sign(vectors) * np.sqrt(np.abs(vectors))
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        vectors /= np.maximum(lengths, 1e-9)
        return vectors


def _hash(piece: str) -> int:
    return crc32(piece.encode("utf-8", "surrogatepass"))


def _pieces(text: str) -> Iterator[str]:
    """Words, pairs of neighbouring words, and the runs of letters in a word."""
    words = _WORD.findall(text[:MAX_CHARACTERS].lower())
    for word in words:
        yield f"w:{word}"
        lengths = (1, 2, 3) if word[0] >= _FIRST_WITHOUT_SPACES else (3, 4, 5)
        marked = f"<{word}>"
        for length in lengths:
            for start in range(len(marked) - length + 1):
                yield marked[start : start + length]
    for first, second in pairwise(words):
        yield f"b:{first}_{second}"
