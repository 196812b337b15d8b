"""The search entries of the in-memory store."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from ekiden.core.values import loads
from ekiden.storage.base import SearchEntry, SearchHit
from ekiden.storage.search import (
    CheckedEntry,
    check_after,
    cosines,
    query_words,
    score_of,
    to_bytes,
    unit_vector,
    valid_keys,
    weights,
    wrong_length,
)
from ekiden.storage.values import check_limit


class _Stored(NamedTuple):
    checked: CheckedEntry
    words: Collection[str]
    updated_at_us: int

    def entry(self, *, with_vector: bool) -> SearchEntry:
        checked = self.checked
        return SearchEntry(
            space=checked.space,
            key=checked.key,
            text=checked.text,
            body=loads(checked.body),
            vector=tuple(checked.vector) if with_vector and checked.vector is not None else None,
            model=checked.model,
            updated_at_us=self.updated_at_us,
        )


class _Space:
    """The entries of one space, and the index of their words."""

    __slots__ = ("entries", "keys_by_word")

    def __init__(self) -> None:
        self.entries: dict[str, _Stored] = {}
        self.keys_by_word: dict[str, set[str]] = {}

    def put(self, stored: _Stored) -> None:
        self.drop(stored.checked.key)
        self.entries[stored.checked.key] = stored
        for word in stored.words:
            self.keys_by_word.setdefault(word, set()).add(stored.checked.key)

    def drop(self, key: str) -> bool:
        stored = self.entries.pop(key, None)
        if stored is None:
            return False
        for word in stored.words:
            keys = self.keys_by_word[word]
            keys.remove(key)
            if not keys:
                del self.keys_by_word[word]
        return True


class MemorySearch:
    """Entries by space and key."""

    __slots__ = ("_spaces",)

    def __init__(self) -> None:
        self._spaces: dict[str, _Space] = {}

    def put(
        self, entries: Sequence[CheckedEntry], words: Iterable[Collection[str]], *, now_us: int
    ) -> None:
        """Store all entries. Raises `UserError` for a vector of another length than others of its
        model."""
        self._check_lengths(entries)
        for entry, its_words in zip(entries, words, strict=True):
            self._spaces.setdefault(entry.space, _Space()).put(_Stored(entry, its_words, now_us))

    def put_vectors(self, entries: Sequence[CheckedEntry]) -> list[str]:
        """Store the vectors of entries whose text is unchanged, and return their keys."""
        unchanged = [entry for entry in entries if self._has_text(entry)]
        self._check_lengths(unchanged)
        for entry in unchanged:
            within = self._spaces[entry.space].entries
            stored = within[entry.key]
            changed = stored.checked._replace(model=entry.model, vector=entry.vector)
            within[entry.key] = stored._replace(checked=changed)
        return [entry.key for entry in unchanged]

    def _has_text(self, entry: CheckedEntry) -> bool:
        stored = self._space(entry.space).entries.get(entry.key)
        return stored is not None and stored.checked.text == entry.text

    def find(
        self,
        space: str,
        *,
        keys: Collection[str] | None,
        after: str,
        not_of_model: str | None,
        limit: int,
    ) -> list[SearchEntry]:
        """Entries with keys above `after`, ordered by key."""
        check_limit(limit, "entries")
        entries = self._space(space).entries
        named = sorted(entries) if keys is None else valid_keys(keys)
        found = []
        for key in named[bisect_right(named, check_after(after)) :]:
            stored = entries.get(key)
            if stored is None or (not_of_model and stored.checked.model == not_of_model):
                continue
            found.append(stored.entry(with_vector=True))
            if len(found) == limit:
                break
        return found

    def delete(self, space: str, keys: Collection[str] | None) -> int:
        """Remove these entries, or all, and return their number."""
        within = self._space(space)
        count = sum(map(within.drop, list(within.entries) if keys is None else valid_keys(keys)))
        if not within.entries:
            self._spaces.pop(space, None)
        return count

    def by_words(self, space: str, query: str, limit: int) -> list[SearchHit]:
        """The entries with the highest weight of shared words, best first."""
        check_limit(limit, "entries")
        within = self._space(space)
        found = {word: within.keys_by_word.get(word, ()) for word in query_words(query)}
        weight = weights({word: len(keys) for word, keys in found.items()}, len(within.entries))
        total = sum(weight.values())
        shared: Counter[str] = Counter()
        for word, keys in found.items():
            shared.update(dict.fromkeys(keys, weight[word]))
        best = sorted(shared, key=lambda key: (-shared[key], key))[:limit]
        return [
            SearchHit(entry=within.entries[key].entry(with_vector=False), score=shared[key] / total)
            for key in best
        ]

    def by_vector(
        self, space: str, vector: Sequence[float], model: str, limit: int
    ) -> list[SearchHit]:
        """The entries with the most similar vectors, most similar first."""
        check_limit(limit, "entries")
        query = unit_vector(vector, "the question")
        found: list[tuple[_Stored, array[float]]] = [
            (stored, stored.checked.vector)
            for stored in self._space(space).entries.values()
            if stored.checked.vector is not None
            and stored.checked.model == model
            and len(stored.checked.vector) == len(query)
        ]
        near = zip(cosines([to_bytes(vector) for _, vector in found], query), found, strict=True)
        best = sorted(near, key=lambda each: (-each[0], each[1][0].checked.key))[:limit]
        return [
            SearchHit(entry=stored.entry(with_vector=False), score=score_of(cosine))
            for cosine, (stored, _) in best
        ]

    def _space(self, name: str) -> _Space:
        return self._spaces.get(name) or _Space()

    def _check_lengths(self, entries: Sequence[CheckedEntry]) -> None:
        """Compare the new vectors of each model with a stored one that is not replaced."""
        replaced = {(entry.space, entry.key) for entry in entries}
        seen: set[tuple[str, str]] = set()
        for entry in entries:
            if entry.vector is None or (entry.space, entry.model) in seen:
                continue
            seen.add((entry.space, entry.model))
            for key, stored in self._space(entry.space).entries.items():
                known, model = stored.checked.vector, stored.checked.model
                if known is None or model != entry.model or (entry.space, key) in replaced:
                    continue
                if len(known) != len(entry.vector):
                    raise wrong_length(entry.name, model, len(entry.vector), len(known))
                break  # The stored vectors of a model all have the same length.
