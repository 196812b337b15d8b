"""One list out of two: what was found by words, and what by meaning.

The cosine decides, and the words lift an entry by the third power of their share: one that has a
few common words of the question is hardly lifted, and one that has most of its rare words far. So
a name or an error code that an embedding knows nothing of is found by its letters, and what is said
in other words, or another language, by its meaning. What has every rare word of the question comes
before all else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ekiden.core.memory import FoundBy, MemoryRecord
from ekiden.memory.entries import memory_record
from ekiden.storage.base import SearchEntry, SearchHit

_EVERY_RARE = 0.9
"""From this share on only words are missing that most entries have."""


@dataclass(slots=True)
class _Found:
    entry: SearchEntry
    words: float | None = None
    meaning: float | None = None

    @property
    def score(self) -> float:
        return max(self.words or 0.0, self.meaning or 0.0)

    def place(self, least: float) -> tuple[bool, float, float, str]:
        """What it is sorted by; without a cosine, it has at most the `least` that was found."""
        words = self.words or 0.0
        near = least if self.meaning is None else self.meaning
        return words < _EVERY_RARE, -(near + words**3), -self.score, self.entry.key

    @property
    def found_by(self) -> FoundBy:
        if self.words is None:
            return "meaning"
        return "words" if self.meaning is None else "both"


def fused(
    words: Sequence[SearchHit],
    meaning: Sequence[SearchHit],
    *,
    top_k: int,
    threshold: float | None,
    nearness: float,
) -> list[MemoryRecord]:
    """The best of both.

    Below `threshold` nothing counts. Without one, every word counts, and a meaning from `nearness`.
    """
    least_words, least_meaning = (0.0, nearness) if threshold is None else (threshold, threshold)
    found: dict[str, _Found] = {}
    for hit in words:
        found.setdefault(hit.entry.key, _Found(hit.entry)).words = hit.score
    for hit in meaning:
        found.setdefault(hit.entry.key, _Found(hit.entry)).meaning = hit.score
    kept = [
        each
        for each in found.values()
        if (each.words is not None and each.words >= least_words)
        or (each.meaning is not None and each.meaning >= least_meaning)
    ]
    least = min((hit.score for hit in meaning), default=0.0)
    kept.sort(key=lambda each: each.place(least))
    return [
        memory_record(each.entry, score=each.score, found_by=each.found_by) for each in kept[:top_k]
    ]
