"""The interface of embedders, which convert texts to vectors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class Embedder(Protocol):
    """Converts texts to vectors: texts with similar meanings get similar vectors."""

    @property
    def name(self) -> str:
        """The name with the version. Vectors of different names cannot be compared."""
        ...

    @property
    def dimensions(self) -> int:
        """The length of a vector."""
        ...

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """A row of length 1 for every text, in order; a row of zeros for an empty text.

        It blocks while it computes, and is thread-safe.
        """
        ...


@runtime_checkable
class KnowingEmbedder(Embedder, Protocol):
    """An embedder that can tell which texts it understands."""

    def knows(self, texts: Sequence[str]) -> NDArray[np.bool_]:
        """For each text, whether its vector is meaningful."""
        ...
