"""The texts of the in-memory store that are found by words or meaning."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from ekiden.core.values import loads
from ekiden.storage.base import SearchEntry, SearchHit
from ekiden.storage.search import (
    OwnEntry,
    asked_words,
    check_after,
    cosines,
    names_among,
    other_length,
    own_vector,
    score_of,
    to_bytes,
    weights,
)
from ekiden.storage.values import check_limit


class _Stored(NamedTuple):
    own: OwnEntry
    words: Collection[str]
    updated_at_us: int

    def entry(self, *, with_vector: bool) -> SearchEntry:
        own = self.own
        return SearchEntry(
            space=own.space,
            key=own.key,
            text=own.text,
            body=loads(own.body),
            vector=tuple(own.vector) if with_vector and own.vector is not None else None,
            model=own.model,
            updated_at_us=self.updated_at_us,
        )


class _Space:
    """The entries of one space, and where each word is."""

    __slots__ = ("entries", "having")

    def __init__(self) -> None:
        self.entries: dict[str, _Stored] = {}
        self.having: dict[str, set[str]] = {}

    def put(self, stored: _Stored) -> None:
        self.drop(stored.own.key)
        self.entries[stored.own.key] = stored
        for word in stored.words:
            self.having.setdefault(word, set()).add(stored.own.key)

    def drop(self, key: str) -> bool:
        stored = self.entries.pop(key, None)
        if stored is None:
            return False
        for word in stored.words:
            keys = self.having[word]
            keys.remove(key)
            if not keys:
                del self.having[word]
        return True


class MemorySearch:
    """Entries by space and key."""

    __slots__ = ("_spaces",)

    def __init__(self) -> None:
        self._spaces: dict[str, _Space] = {}

    def put(
        self, entries: Sequence[OwnEntry], words: Iterable[Collection[str]], *, now_us: int
    ) -> None:
        """Store them all; `UserError` for a vector of another length than those of its model."""
        self._check_lengths(entries)
        for own, found in zip(entries, words, strict=True):
            self._spaces.setdefault(own.space, _Space()).put(_Stored(own, found, now_us))

    def put_vectors(self, entries: Sequence[OwnEntry]) -> list[str]:
        """Give entries that have the same text still these vectors; which."""
        same = [own for own in entries if self._has_text(own)]
        self._check_lengths(same)
        for own in same:
            within = self._spaces[own.space].entries
            stored = within[own.key]
            changed = stored.own._replace(model=own.model, vector=own.vector)
            within[own.key] = stored._replace(own=changed)
        return [own.key for own in same]

    def _has_text(self, own: OwnEntry) -> bool:
        stored = self._of(own.space).entries.get(own.key)
        return stored is not None and stored.own.text == own.text

    def find(
        self,
        space: str,
        *,
        keys: Collection[str] | None,
        after: str,
        not_of_model: str | None,
        limit: int,
    ) -> list[SearchEntry]:
        """Entries by key."""
        check_limit(limit, "entries")
        entries = self._of(space).entries
        named = sorted(entries) if keys is None else names_among(keys)
        found = []
        for key in named[bisect_right(named, check_after(after)) :]:
            stored = entries.get(key)
            if stored is None or (not_of_model and stored.own.model == not_of_model):
                continue
            found.append(stored.entry(with_vector=True))
            if len(found) == limit:
                break
        return found

    def delete(self, space: str, keys: Collection[str] | None) -> int:
        """Remove these, or all; how many there were."""
        within = self._of(space)
        count = sum(map(within.drop, list(within.entries) if keys is None else names_among(keys)))
        if not within.entries:
            self._spaces.pop(space, None)
        return count

    def by_words(self, space: str, query: str, limit: int) -> list[SearchHit]:
        """The entries with most of the words by weight, the best first."""
        check_limit(limit, "entries")
        within, asked = self._of(space), asked_words(query)
        having = {word: within.having.get(word, ()) for word in asked}
        weight = weights({word: len(keys) for word, keys in having.items()}, len(within.entries))
        total = sum(weight.values())
        shared: Counter[str] = Counter()
        for word, keys in having.items():
            shared.update(dict.fromkeys(keys, weight[word]))
        best = sorted(shared, key=lambda key: (-shared[key], key))[:limit]
        return [
            SearchHit(entry=within.entries[key].entry(with_vector=False), score=shared[key] / total)
            for key in best
        ]

    def by_vector(
        self, space: str, vector: Sequence[float], model: str, limit: int
    ) -> list[SearchHit]:
        """The nearest entries, the nearest first."""
        check_limit(limit, "entries")
        asked = own_vector(vector, "the question")
        found: list[tuple[_Stored, array[float]]] = [
            (stored, stored.own.vector)
            for stored in self._of(space).entries.values()
            if stored.own.vector is not None
            and stored.own.model == model
            and len(stored.own.vector) == len(asked)
        ]
        near = zip(cosines([to_bytes(vector) for _, vector in found], asked), found, strict=True)
        best = sorted(near, key=lambda each: (-each[0], each[1][0].own.key))[:limit]
        return [
            SearchHit(entry=stored.entry(with_vector=False), score=score_of(cosine))
            for cosine, (stored, _) in best
        ]

    def _of(self, space: str) -> _Space:
        return self._spaces.get(space) or _Space()

    def _check_lengths(self, entries: Sequence[OwnEntry]) -> None:
        """All that will stay and all that come must fit, for each model of a space."""
        coming = {(own.space, own.key) for own in entries}
        checked: set[tuple[str, str]] = set()
        for own in entries:
            if own.vector is None or (own.space, own.model) in checked:
                continue
            checked.add((own.space, own.model))
            for key, stored in self._of(own.space).entries.items():
                known = stored.own.vector
                if known is None or stored.own.model != own.model or (own.space, key) in coming:
                    continue
                if len(known) != len(own.vector):
                    raise other_length(own.name, own.model, len(own.vector), len(known))
                break
