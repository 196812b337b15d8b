"""Which events do not count any more, and by which event they were undone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ekiden.core.events import Event
from ekiden.tracing.facts import is_rewind


class Undoing:
    """Events of a session that undo others, collected in order."""

    __slots__ = ("_others", "_rewinds")

    def __init__(self) -> None:
        self._rewinds: list[tuple[int, int, int]] = []
        self._others: list[tuple[int, int, int, frozenset[int]]] = []

    def look(self, event: Event, details: Mapping[str, Any]) -> None:
        """The event happened; the range that it undoes, if any, ends before it."""
        if "undoes" not in details:
            return
        span = _range(details["undoes"], event.seq)
        if span is None:
            return
        if is_rewind(event, details):
            self._rewinds.append((event.seq, *span))
        elif event.type == "handoff" or (event.step or "").endswith(".popped"):
            keeps = details.get("keeps")
            kept = frozenset(_numbers(keeps)) if isinstance(keeps, list) else frozenset()
            self._others.append((event.seq, *span, kept))

    def undone(self) -> dict[int, int]:
        """By event number: the number of the event that undid it.

        A step back that was itself taken back undoes nothing, and neither does a rollback that
        was. The time it takes grows with the events, not with the ranges.
        """
        marks = _Marks()
        for seq, first, last in reversed(self._rewinds):
            if seq not in marks.by:
                marks.mark(first, last, seq, frozenset())
        rewound = set(marks.by)
        for seq, first, last, kept in self._others:
            if seq not in rewound:
                marks.mark(first, last, seq, kept)
        return marks.by


class _Marks:
    """Numbers that are marked once each; a row of marked ones is jumped over."""

    def __init__(self) -> None:
        self.by: dict[int, int] = {}
        self._next: dict[int, int] = {}

    def mark(self, first: int, last: int, seq: int, kept: frozenset[int]) -> None:
        number = self._free(first)
        while number <= last:
            if number not in kept:
                self.by[number] = seq
                self._next[number] = number + 1
            number = self._free(number + 1)

    def _free(self, number: int) -> int:
        """The first number from here on that is not marked."""
        way = []
        while number in self._next:
            way.append(number)
            number = self._next[number]
        for each in way:
            self._next[each] = number
        return number


def _range(value: Any, seq: int) -> tuple[int, int] | None:
    if not isinstance(value, list) or len(value) != 2:
        return None
    numbers = _numbers(value)
    if len(numbers) != 2:
        return None
    first, last = max(numbers[0], 1), min(numbers[1], seq - 1)
    return (first, last) if first <= last else None


def _numbers(values: Sequence[Any]) -> list[int]:
    return [each for each in values if isinstance(each, int) and not isinstance(each, bool)]
