"""Texts that are found by their words or their meaning."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchEntry:
    """A text with its key, in one space.

    For example::

        await store.put_entries([SearchEntry(space="menu", key="1", text="Café au lait")])
        [hit] = await store.search_text("menu", "cafe")
        print(hit.entry.key, hit.score)
    """

    space: str
    """Its owner: every call names one space, and nothing is found in another."""
    key: str
    text: str
    body: Any = None
    """Its JSON."""
    vector: Sequence[float] | None = None
    """Its embedding; of length 1."""
    model: str = ""
    """The embedder of the vector: vectors of two embedders are never compared."""
    updated_at_us: int = 0
    """Set by the store."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchHit:
    """A search result."""

    entry: SearchEntry
    """Without its vector."""
    score: float
    """0 to 1, higher is closer. By words: the share of the question's words in the text, weighted
    by rarity in the space. By meaning: the cosine, 0 if it is negative."""


class SearchStore(Protocol):
    """Entries by space and key.

    Words are found without regard to case; a word of a script that does not part words (Chinese,
    Japanese, Thai …) is found wherever it stands. A space that has nothing is not an error.
    """

    async def put_entries(self, entries: Sequence[SearchEntry]) -> None:
        """Store them, all or none, in the place of those with the same space and key.

        `UserError` for a body that is not JSON, an empty space or key, and a vector without a
        model, of another length than those of its model, or with what is no finite number.
        """
        ...

    async def put_vectors(self, entries: Sequence[SearchEntry]) -> Sequence[str]:
        """Give entries that were found the vectors that they carry now, and change nothing else.

        One that was removed, or whose text was changed, since it was found is left out. Gives the
        keys of the others, in order. `UserError` as for `put_entries`.
        """
        ...

    async def find_entries(
        self,
        space: str,
        *,
        keys: Collection[str] | None = None,
        after: str = "",
        not_of_model: str | None = None,
        limit: int = 100,
    ) -> Sequence[SearchEntry]:
        """Entries by key, those above `after`; with `keys` only these; with `not_of_model` only
        those without a vector of that model."""
        ...

    async def delete_entries(self, space: str, *, keys: Collection[str] | None = None) -> int:
        """Remove these, or all of the space; how many there were."""
        ...

    async def search_text(self, space: str, query: str, *, limit: int = 10) -> Sequence[SearchHit]:
        """Entries that have words of the question, the best first; none for a question without
        words. Whatever signs the question has, it is words and never a query language."""
        ...

    async def search_vectors(
        self, space: str, vector: Sequence[float], *, model: str, limit: int = 10
    ) -> Sequence[SearchHit]:
        """The nearest entries with a vector of this model, the nearest first."""
        ...
