"""The values that a condition computes with, and their short form in traces.

Facts come from anywhere, so nothing here trusts them: what is read of them is turned into plain
values first (`known`), and of objects that are neither mappings nor lists nothing is ever called.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from math import isfinite
from typing import Any, Final, TypeAlias

from ekiden.core.values import dumps

MAX_NUMBER: Final = 2**63
"""A whole number beyond this, to either side, is no value."""

Step: TypeAlias = str | int
"""One step into a structure: the key of a mapping, or the index of a list."""


class NoValue:
    """Stands for a value that there is not, and says why. It is false."""

    __slots__ = ("name", "reason")

    def __init__(self, reason: str, *, name: str | None = None) -> None:
        self.reason = reason
        self.name = name
        """The dotted name of the field, if it is a missing one."""

    def __bool__(self) -> bool:
        return False


ABSENT: Final = object()
NUMBERS: Final = frozenset({int, float})
"""The types of numbers; a boolean is none."""
SIMPLE: Final = frozenset({str, bool, type(None), NoValue})
"""The types of known values that are neither numbers nor made of others."""
UNCHANGING: Final = SIMPLE | NUMBERS
"""The types of known values that stay what they are."""
_PLAIN = frozenset({str, bool, type(None), list, dict, tuple})
_SEQUENCES = frozenset({list, tuple})
_UNREADABLE = NoValue("a value that cannot be read")


def known(value: Any) -> Any:
    """`value` as a plain one: text, number, boolean, null, list or mapping; else `NoValue`.

    Text and numbers of derived types, such as an enum's, become what they derive from; a set
    becomes a list, in alphabetical order when it has texts only. A mapping stays the object it is.
    """
    kind = type(value)
    if kind is int:
        return value if -MAX_NUMBER <= value <= MAX_NUMBER else NoValue("too large a number")
    if kind is float:
        return value if value == value else NoValue("not a number (NaN)")
    if kind in _PLAIN or kind is NoValue:
        return value
    try:
        return _converted(value)
    except Exception:
        return _UNREADABLE


def _converted(value: Any) -> Any:
    kind = type(value)
    if issubclass(kind, str):
        return str.__str__(value)
    if issubclass(kind, int):
        return known(int.__int__(value))
    if issubclass(kind, float):
        return known(float.__float__(value))
    if issubclass(kind, list):
        return list(list.__iter__(value))
    if issubclass(kind, tuple):
        return tuple(tuple.__iter__(value))
    if issubclass(kind, set | frozenset):
        items = list(value)
        return sorted(items) if all(type(item) is str for item in items) else items
    if issubclass(kind, Mapping):
        return value
    return NoValue(f"not a value for conditions ({kind.__name__[:80]})")


def kind_of(value: Any) -> str:
    """What a known value is, in the words of messages."""
    kind = type(value)
    if kind is str:
        return "text"
    if kind is bool:
        return "boolean"
    if kind in NUMBERS:
        return "number"
    if value is None:
        return "null"
    if kind in _SEQUENCES:
        return "list"
    return "mapping"


def is_list(value: Any) -> bool:
    """Whether a known value is a list."""
    return type(value) in _SEQUENCES


def is_mapping(value: Any) -> bool:
    """Whether a known value is a mapping."""
    return kind_of(value) == "mapping"


def is_true(value: Any) -> bool:
    """Whether a known value counts as true: not null, not 0, not empty, and there."""
    kind = type(value)
    if kind is bool or kind in _PLAIN or kind in NUMBERS or kind is NoValue:
        return bool(value)
    try:
        return len(value) > 0
    except Exception:
        return False


def items_of(value: Any) -> Iterator[Any]:
    """The items of a known list, each as a known value."""
    return map(known, value)


def step_into(holder: Any, step: Step) -> Any:
    """What stands under `step` in `holder`, not looked at yet; `ABSENT` if nothing does.

    Only mappings are asked for text, and only lists for a position. Raises what a mapping raises.
    """
    if type(holder) is dict and type(step) is str:
        return holder.get(step, ABSENT)
    holder = known(holder)
    if type(step) is int:
        inside = is_list(holder) and -len(holder) <= step < len(holder)
        return holder[step] if inside else ABSENT
    if type(holder) is NoValue or not is_mapping(holder):
        return ABSENT
    if isinstance(holder, dict):
        return dict.get(holder, step, ABSENT)
    return holder.get(step, ABSENT)


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
