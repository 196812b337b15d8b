"""Values of facts as traces show them: JSON of limited length."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from math import isfinite
from typing import Any

from ekiden.conditions.values import NoValue, is_list, known, step_into
from ekiden.core.values import dumps

_MAX_TEXT = 120
_MAX_ITEMS = 8
_MAX_DEPTH = 3
_MAX_SHOWN = 24
"""So many values are shown of one structure."""
MAX_LINE = 200
"""So long is a value in a line for people."""

_SHORT = frozenset({bool, int, type(None), NoValue})


def shortened(value: Any) -> Any:
    """A known value as JSON, of at most some 3,000 characters; `NoValue` is null."""
    return _Shortener().of(value, 0)


class _Shortener:
    """Shows one structure, until there is no room."""

    __slots__ = ("_room",)

    def __init__(self) -> None:
        self._room = _MAX_SHOWN

    def of(self, value: Any, depth: int) -> Any:
        self._room -= 1
        value = known(value)
        kind = type(value)
        if kind is NoValue:
            return None
        if kind in _SHORT:
            return value
        if kind is float:
            return value if isfinite(value) else str(value)
        if kind is str:
            return short_text(value)
        if depth >= _MAX_DEPTH or self._room <= 0:
            return "[…]" if is_list(value) else "{…}"
        try:
            return self._list(value, depth) if is_list(value) else self._mapping(value, depth)
        except Exception:
            return "{…}"

    def _list(self, value: Any, depth: int) -> list[Any]:
        shown = [self.of(item, depth + 1) for item in self._first(value)]
        more = len(value) - len(shown)
        return [*shown, f"… {more} more"] if more else shown

    def _mapping(self, value: Any, depth: int) -> dict[str, Any]:
        shown: dict[str, Any] = {}
        for key in self._first(value):
            if isinstance(key, str):
                shown[short_text(str.__str__(key))] = self.of(step_into(value, key), depth + 1)
        more = len(value) - len(shown)
        return {**shown, "…": f"{more} more"} if more > 0 else shown

    def _first(self, value: Any) -> Iterator[Any]:
        for each in islice(value, _MAX_ITEMS):
            if self._room <= 0:
                return
            yield each


def short_text(text: str, most: int = _MAX_TEXT) -> str:
    """`text`, cut at the end if it is long."""
    return text if len(text) <= most else f"{text[:most]}…"


def line(value: Any) -> str:
    """A shortened value in a line for people."""
    return short_text(dumps(value), MAX_LINE)
