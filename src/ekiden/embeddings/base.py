"""The role of an embedder: texts to vectors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class Embedder(Protocol):
    """Turns texts into vectors whose nearness is nearness of meaning."""

    @property
    def name(self) -> str:
        """Which one it is, with its version: vectors of two names cannot be compared."""
        ...

    @property
    def dimensions(self) -> int:
        """The length of a vector."""
        ...

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """One row of length 1 for every text, in order; an empty text is a row of zeros.

        Blocks while it computes; safe to call from several threads.
        """
        ...


@runtime_checkable
class KnowingEmbedder(Embedder, Protocol):
    """An embedder that tells which texts it understands."""

    def knows(self, texts: Sequence[str]) -> NDArray[np.bool_]:
        """For each text whether its vector has a meaning."""
        ...
