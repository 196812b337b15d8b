"""Matches capabilities by meaning if no name matches."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import numpy as np

from ekiden.capabilities.declared import Held, Holders, folded
from ekiden.core.profile import Capability
from ekiden.embeddings.base import Embedder

if TYPE_CHECKING:
    from numpy.typing import NDArray

_REMEMBERED = 256
"""The number of required names whose vectors are cached."""


class SemanticMatcher:
    """Finds the capabilities whose name or description is similar to a required name.

    Name and description are compared separately, and the higher similarity counts. If they were
    joined, few synonyms would be similar enough. Vectors are computed when they are first needed,
    and cached. Call `changed` after a change of `capabilities`.
    """

    def __init__(
        self,
        embedder: Embedder,
        capabilities: Mapping[str, tuple[Capability, ...]],
        *,
        min_similarity: float,
    ) -> None:
        self.embedder = embedder
        self._capabilities = capabilities
        self._min_similarity = min_similarity
        self._vectors: dict[str, NDArray[np.float32]] = {}
        self._queries: dict[str, NDArray[np.float32]] = {}
        """The vectors of required names."""
        self._owners: dict[str, list[tuple[str, Capability]]] | None = None
        """The agents and capabilities of each text. `None`: not computed yet."""
        self._matrix: NDArray[np.float32] | None = None
        """A row for every text in `_owners`, in their order."""

    def changed(self) -> None:
        """Discard cached texts after the capabilities of an agent have changed."""
        self._owners = self._matrix = None

    def missing_vectors(self, queries: Iterable[str]) -> tuple[list[str], list[str]]:
        """The texts that have no vectors yet: texts of capabilities, and required names."""
        declared = [text for text in self._texts() if text not in self._vectors]
        return declared, [text for text in dict.fromkeys(queries) if text not in self._queries]

    def add_vectors(
        self, declared: list[str], queries: list[str], vectors: NDArray[np.float32]
    ) -> None:
        """Store `vectors`: first the vectors of capability texts, then the vectors of required
        names."""
        self._vectors.update(zip(declared, vectors[: len(declared)], strict=True))
        self._queries.update(zip(queries, vectors[len(declared) :], strict=True))
        for text in list(self._queries)[: max(0, len(self._queries) - _REMEMBERED)]:
            del self._queries[text]

    def holders(self, query: str) -> Holders:
        """The best capability of each agent, by proficiency times similarity.

        This call blocks while it computes missing vectors.
        """
        declared, new = self.missing_vectors([query])
        if declared or new:
            self.add_vectors(declared, new, self.embedder.embed([*declared, *new]))
        owners = self._texts()
        if not owners:
            return {}
        near = self._rows() @ self._queries[query]
        found: dict[str, Held] = {}
        for text, cosine in zip(owners, near.tolist(), strict=True):
            if cosine >= self._min_similarity:
                for agent, capability in owners[text]:
                    _keep_best(found, agent, capability, min(cosine, 1.0))
        return found

    def _texts(self) -> Mapping[str, list[tuple[str, Capability]]]:
        if self._owners is None:
            self._owners = {}
            for agent, capabilities in self._capabilities.items():
                for each in capabilities:
                    for text in {folded(each.name), each.description.strip()} - {""}:
                        self._owners.setdefault(text, []).append((agent, each))
        return self._owners

    def _rows(self) -> NDArray[np.float32]:
        if self._matrix is None:
            owners = self._texts()
            self._vectors = {text: self._vectors[text] for text in owners}
            self._matrix = np.stack(list(self._vectors.values()))
        return self._matrix


def _keep_best(
    found: dict[str, Held], agent: str, capability: Capability, similarity: float
) -> None:
    score = capability.proficiency * similarity
    best = found.get(agent)
    if best is None or (-score, capability.name) < (-best.score, best.capability.name):
        found[agent] = Held(score, capability, "meaning", similarity)
