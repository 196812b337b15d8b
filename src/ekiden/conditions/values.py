"""What a condition can compute with: the values of JSON, and the lack of one.

Facts come from anywhere, so nothing here trusts them: what is read of them is turned into plain
values first (`known`), and of objects that are neither mappings nor lists nothing is ever called.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeAlias

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
