"""Embeddings that are computed once and kept in a folder, so that a benchmark can be repeated."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ekiden.embeddings.base import KnowingEmbedder


class KeptEmbeddings:
    """An embedder that remembers; `save` writes what is new to a file of its own."""

    def __init__(self, embedder: KnowingEmbedder, folder: Path) -> None:
        self.name, self.dimensions = embedder.name, embedder.dimensions
        self.knows = embedder.knows
        self._embedder = embedder
        self._folder = folder / sha256(embedder.name.encode()).hexdigest()[:16]
        self._folder.mkdir(parents=True, exist_ok=True)
        self._known: dict[str, NDArray[np.float32]] = {}
        self._new: list[str] = []
        for path in sorted(self._folder.glob("*.npz")):
            with np.load(path, allow_pickle=False) as kept:
                self._known.update(zip(kept["texts"].tolist(), kept["vectors"], strict=True))

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """As the embedder, each text once."""
        missing = [text for text in dict.fromkeys(texts) if text not in self._known]
        if missing:
            self._known.update(zip(missing, self._embedder.embed(missing), strict=True))
            self._new += missing
        return np.stack([self._known[text] for text in texts])

    def save(self) -> None:
        """Whole or not at all."""
        if not self._new:
            return
        vectors = np.stack([self._known[text] for text in self._new])
        handle, name = tempfile.mkstemp(dir=self._folder)
        with os.fdopen(handle, "wb") as file:
            np.savez(file, texts=np.array(self._new), vectors=vectors)
        os.replace(name, self._folder / f"{len(self._known):08d}.npz")
        self._new = []
