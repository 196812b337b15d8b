"""Matches capabilities by meaning when no name fits."""

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
"""So many texts that were asked for keep their vectors."""


class SemanticMatcher:
    """Finds the capabilities whose name or description is near to a text.

    The two are compared apart and the nearer counts: joined into one text, they would be near to
    few of the words that mean the same. Vectors are computed when they are first needed, and kept.
    `capabilities` is looked at again after `changed`.
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
        self._asked: dict[str, NDArray[np.float32]] = {}
        self._owners: dict[str, list[tuple[str, Capability]]] | None = None
        """By text: whose capability says it; `None` until it is needed."""
        self._matrix: NDArray[np.float32] | None = None
        """A row for every text of the owners, in their order."""

    def changed(self) -> None:
        """To be called when an agent's capabilities are others."""
        self._owners = self._matrix = None

    def unknown(self, asked: Iterable[str]) -> tuple[list[str], list[str]]:
        """What has no vector yet: of the capabilities' texts, and of `asked`."""
        told = [text for text in self._said() if text not in self._vectors]
        return told, [text for text in dict.fromkeys(asked) if text not in self._asked]

    def learn(self, told: list[str], asked: list[str], vectors: NDArray[np.float32]) -> None:
        """Take the vectors of the capabilities' texts and then of those that are asked for."""
        self._vectors.update(zip(told, vectors[: len(told)], strict=True))
        self._asked.update(zip(asked, vectors[len(told) :], strict=True))
        for text in list(self._asked)[: max(0, len(self._asked) - _REMEMBERED)]:
            del self._asked[text]

    def holders(self, asked: str) -> Holders:
        """By agent, the capability that counts most: its proficiency times the similarity.

        Blocks while it computes what is not known yet.
        """
        told, new = self.unknown([asked])
        if told or new:
            self.learn(told, new, self.embedder.embed([*told, *new]))
        owners = self._said()
        if not owners:
            return {}
        near = self._rows() @ self._asked[asked]
        found: dict[str, Held] = {}
        for text, cosine in zip(owners, near.tolist(), strict=True):
            if cosine >= self._min_similarity:
                for agent, capability in owners[text]:
                    _keep_best(found, agent, capability, min(cosine, 1.0))
        return found

    def _said(self) -> Mapping[str, list[tuple[str, Capability]]]:
        if self._owners is None:
            self._owners = {}
            for agent, capabilities in self._capabilities.items():
                for each in capabilities:
                    for text in {folded(each.name), each.description.strip()} - {""}:
                        self._owners.setdefault(text, []).append((agent, each))
        return self._owners

    def _rows(self) -> NDArray[np.float32]:
        if self._matrix is None:
            owners = self._said()
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
