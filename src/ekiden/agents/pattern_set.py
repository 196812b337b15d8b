"""Matches many regular expressions at once.

RE2's filter extracts the literal texts that each pattern requires, searches for all of them in one
pass, and tries only the remaining patterns. One automaton for all patterns (`re2.Set`) would be
simpler. But with thousands of patterns, it builds new states for every new text and takes about 2
ms for a sentence. The filter takes 0.02 ms.

The filter keeps its literals in an automaton of limited memory. A filter that exceeds the limit
finds nothing, without an error. Therefore filters have a limited size, and each filter is tested
with a probe pattern that it must find. A filter that misses its probe is split in two. A single
pattern whose filter fails is matched without a filter.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any
from unicodedata import normalize

import re2

from ekiden.core.errors import UserError
from ekiden.core.text.wording import pattern_fault

_PROBE = "ekiden-probe-5f1c"
_FILTER_BYTES = 30_000
"""Maximum total length of the patterns in one filter."""


class PatternSet:
    """Patterns in the syntax of RE2, compiled once. Several threads may use one object."""

    __slots__ = ("_filters", "_single")

    def __init__(self, patterns: Sequence[str]) -> None:
        """Raises `UserError` for a pattern that does not compile."""
        self._filters: list[tuple[Any, Sequence[int]]] = []
        """Filters, each with the positions of its patterns."""
        self._single: list[tuple[Any, int]] = []
        """Patterns without a filter, each with its position."""
        for part in _parts(patterns):
            self._add(patterns, part)

    def matches(self, text: str) -> set[int]:
        """The positions of the patterns that match anywhere in `text`.

        Both the text and its NFKC form are searched, so that full-width characters match.
        """
        found: set[int] = set()
        for encoded in _shapes(text) if self._filters or self._single else ():
            for made, positions in self._filters:
                hits = made.Match(encoded) or ()
                # The probe has the last position of each filter.
                found.update(positions[hit] for hit in hits if hit < len(positions))
            found.update(position for single, position in self._single if single.search(encoded))
        return found

    def _add(self, patterns: Sequence[str], positions: Sequence[int]) -> None:
        made = _filter([patterns[each] for each in positions])
        if made is not None:
            self._filters.append((made, positions))
        elif len(positions) == 1:
            [only] = positions
            self._single.append((re2.compile(patterns[only].encode(), _options()), only))
        else:
            half = len(positions) // 2
            self._add(patterns, positions[:half])
            self._add(patterns, positions[half:])


def fault_of(pattern: str) -> str | None:
    """The fault of `pattern` with a suggestion, or `None` for a valid pattern."""
    try:
        re2.compile(pattern, _options())
    except UnicodeEncodeError:
        return "it has half of a character (a lone surrogate)"
    except re2.error:
        return pattern_fault(pattern) or "RE2 does not take it"
    return None


def _parts(patterns: Sequence[str]) -> Iterator[list[int]]:
    part: list[int] = []
    room = _FILTER_BYTES
    for position, pattern in enumerate(patterns):
        size = len(pattern.encode("utf-8", "replace"))
        if part and size > room:
            yield part
            part, room = [], _FILTER_BYTES
        part.append(position)
        room -= size
    if part:
        yield part


def _filter(patterns: Sequence[str]) -> Any:
    """A filter with the patterns and the probe; `None` if it exceeds RE2's memory limit."""
    made, options = re2.Filter(), _options()
    for pattern in (*patterns, _PROBE):
        try:
            made.Add(pattern, options)
        except (re2.error, UnicodeEncodeError):
            raise UserError(
                f"the pattern {pattern!r} cannot be used: {fault_of(pattern)}"
            ) from None
    try:
        made.Compile()
    except re2.error:
        return None
    return made if len(patterns) in (made.Match(_PROBE.encode()) or ()) else None


def _shapes(text: str) -> list[bytes]:
    if text.isascii():
        return [text.encode()]
    plain = normalize("NFKC", text)
    shapes = [text] if plain == text else [text, plain]
    return [shape.encode("utf-8", "replace") for shape in shapes]


def _options() -> Any:
    options = re2.Options()
    options.case_sensitive = False
    options.log_errors = False
    options.never_capture = True
    return options
