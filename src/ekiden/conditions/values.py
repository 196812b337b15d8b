"""The values of conditions, their operators, and their short form in traces.

Facts are untrusted. So `known` first converts each value to a *known value*: a text, number,
boolean, null, list or mapping. Methods of other objects are never called.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping
from itertools import chain, islice
from math import isfinite
from typing import Any, Final, TypeAlias

from ekiden.core.values import dumps

MAX_NUMBER: Final = 2**63
"""The largest absolute value of whole numbers; larger numbers are `NoValue`."""

Step: TypeAlias = str | int
"""One step into a structure: the key of a mapping, or the index of a list."""


class NoValue:
    """The result of an expression without a value, with the reason. It is false."""

    __slots__ = ("name", "reason")

    def __init__(self, reason: str, *, name: str | None = None) -> None:
        self.reason = reason
        self.name = name
        """The dotted name of a missing field. `None`: another reason."""

    def __bool__(self) -> bool:
        return False


ABSENT: Final = object()
NUMBERS: Final = frozenset({int, float})
"""The types of numbers; a boolean is not a number."""
SIMPLE: Final = frozenset({str, bool, type(None), NoValue})
"""The types of known values that are neither numbers nor containers."""
UNCHANGING: Final = SIMPLE | NUMBERS
"""The immutable types of known values."""
_PLAIN = frozenset({str, bool, type(None), list, dict, tuple})
_SEQUENCES = frozenset({list, tuple})
_UNREADABLE = NoValue("a value that cannot be read")


def known(value: Any) -> Any:
    """Return `value` as text, number, boolean, null, list or mapping, or `NoValue` for other types.

    Derived types of text and numbers, such as enums, are converted to their base types. A set
    becomes a list, sorted if it has only texts. A mapping is returned unchanged.
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
    """The type of a known value, as named in messages."""
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
    """Whether a known value counts as true: not null, 0, empty or `NoValue`."""
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
    """The unconverted value at `step` in `holder`; `ABSENT` if there is none.

    Only mappings have keys, and only lists have positions. Exceptions of a mapping are not caught.
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
"""Maximum number of values that are shown of one structure."""
MAX_LINE = 200
"""Maximum length of a value in a line for people."""

_SHORT = frozenset({bool, int, type(None), NoValue})


def shortened(value: Any) -> Any:
    """A known value as JSON, with at most about 3,000 characters; `NoValue` becomes null."""
    return _Shortener().of(value, 0)


class _Shortener:
    """Shortens one structure to `_MAX_SHOWN` values."""

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
    """A value in one short line for people."""
    return short_text(dumps(value), MAX_LINE)


# Operators take two known values and return a known value, or `NoValue` with the reason. They never
# raise. If an operand is `NoValue`, it is the result, so that its reason is kept.

Operator: TypeAlias = Callable[[Any, Any], Any]

_MAX_COMPARED_DEPTH = 40
_MAX_COMPARED = 10_000
"""Maximum number of comparisons to decide whether two structures are equal: a structure can contain
itself, or the same part many times."""

_SCALARS = frozenset({str, bool, type(None)})


def equal(left: Any, right: Any) -> Any:
    """Whether two values are equal; values of different kinds are not."""
    kind = type(left)
    if kind is type(right) and kind in _SCALARS:
        return left == right
    if kind in NUMBERS and type(right) in NUMBERS:
        return left == right
    return _Equality().compare(left, right)


def unequal(left: Any, right: Any) -> Any:
    """The opposite of `equal`; `NoValue` stays `NoValue`."""
    found = equal(left, right)
    return found if type(found) is NoValue else not found


class _Equality:
    """One comparison of two structures, with a limited number of steps."""

    __slots__ = ("_left_over",)

    def __init__(self, *, more: int = 0) -> None:
        self._left_over = _MAX_COMPARED + more

    def compare(self, left: Any, right: Any, depth: int = 0) -> Any:
        if type(left) in NUMBERS and type(right) in NUMBERS:
            return left == right
        for side in (left, right):
            if type(side) is NoValue:
                return side
        kind = kind_of(left)
        if kind != kind_of(right):
            return False
        self._left_over -= 1
        if depth > _MAX_COMPARED_DEPTH or self._left_over < 0:
            return NoValue("too large to compare")
        if kind == "list":
            return self._lists(left, right, depth)
        if kind == "mapping":
            try:
                return self._mappings(left, right, depth)
            except Exception:
                return NoValue("a mapping that cannot be read")
        return left == right

    def _lists(self, left: Any, right: Any, depth: int) -> Any:
        if len(left) != len(right):
            return False
        unsure: Any = True
        for one, other in zip(items_of(left), items_of(right), strict=False):
            found = self.compare(one, other, depth + 1)
            if found is False or self._left_over < 0:
                return found
            unsure = found if unsure is True else unsure
        return unsure

    def _mappings(self, left: Any, right: Any, depth: int) -> Any:
        size = len(left)
        if size != len(right):
            return False
        if size > self._left_over:
            return NoValue("too large to compare")
        # The iterator of a foreign mapping may yield more keys than its length, or never end.
        keys = list(islice(left, size))
        if not all(isinstance(key, str) for key in chain(keys, islice(right, size))):
            return NoValue("a mapping with a name that is not text")
        unsure: Any = True
        for key in keys:
            other = step_into(right, key)
            if other is ABSENT:
                return False
            found = self.compare(known(step_into(left, key)), known(other), depth + 1)
            if found is False or self._left_over < 0:
                return found
            unsure = found if unsure is True else unsure
        return unsure


def _ordering(symbol: str, compare: Operator) -> Operator:
    def order(left: Any, right: Any) -> Any:
        if type(left) in NUMBERS and type(right) in NUMBERS:
            return compare(left, right)
        if type(left) is str and type(right) is str:
            return compare(left, right)
        if type(left) is NoValue:
            return left
        if type(right) is NoValue:
            return right
        one, other = kind_of(left), kind_of(right)
        if one == other:
            return NoValue(f"cannot order by {symbol}: {one} and {other}")
        return NoValue(f"cannot compare {one} with {other}")

    return order


def contained(part: Any, whole: Any) -> Any:
    """Whether a list has an item, a text has a part, or a mapping has a key."""
    for side in (part, whole):
        if type(side) is NoValue:
            return side
    if is_list(whole):
        return _member(part, whole)
    if type(whole) is str:
        return part in whole if type(part) is str else _cannot_look(part, whole)
    if is_mapping(whole) and type(part) is str:
        try:
            return step_into(whole, part) is not ABSENT
        except Exception:
            return NoValue("a mapping that cannot be read")
    return _cannot_look(part, whole)


def not_contained(part: Any, whole: Any) -> Any:
    """The opposite of `contained`; `NoValue` stays `NoValue`."""
    found = contained(part, whole)
    return found if type(found) is NoValue else not found


def _member(part: Any, whole: Any) -> Any:
    """Whether a list has an item; `NoValue` if only items without a value could be equal to it."""
    kind = type(part)
    number = kind in NUMBERS
    unsure: Any = False
    # The limit is for nested items: a long list must not use it up with one step for each item.
    equality = _Equality(more=2 * len(whole))
    for item in whole:
        if type(item) in _SCALARS:
            if type(item) is kind and item == part:
                return True
            continue
        if number and type(item) in NUMBERS and -MAX_NUMBER <= item <= MAX_NUMBER:
            if item == part:
                return True
            continue
        found = equality.compare(part, known(item))
        if found is True:
            return True
        unsure = found if type(found) is NoValue else unsure
    return unsure


def _cannot_look(part: Any, whole: Any) -> NoValue:
    return NoValue(f"cannot look for {kind_of(part)} in {kind_of(whole)}")


def _arithmetic(symbol: str, compute: Operator) -> Operator:
    def calculate(left: Any, right: Any) -> Any:
        if type(left) in NUMBERS and type(right) in NUMBERS:
            try:
                return bounded(compute(left, right))
            except ZeroDivisionError:
                return NoValue("division by zero")
        for side in (left, right):
            if type(side) is NoValue:
                return side
        return NoValue(f"cannot calculate {kind_of(left)} {symbol} {kind_of(right)}")

    return calculate


def bounded(number: Any) -> Any:
    """Return the result of a calculation, or `NoValue` if it is too large or undefined."""
    if type(number) is float:
        return number if isfinite(number) else NoValue("too large a number")
    return known(number)


COMPARISONS: Final[Mapping[str, Operator]] = {
    "==": equal,
    "!=": unequal,
    "<": _ordering("<", operator.lt),
    "<=": _ordering("<=", operator.le),
    ">": _ordering(">", operator.gt),
    ">=": _ordering(">=", operator.ge),
    "in": contained,
    "not in": not_contained,
}
ARITHMETIC: Final[Mapping[str, Operator]] = {
    "+": _arithmetic("+", operator.add),
    "-": _arithmetic("-", operator.sub),
    "*": _arithmetic("*", operator.mul),
    "/": _arithmetic("/", operator.truediv),
    "//": _arithmetic("//", operator.floordiv),
    "%": _arithmetic("%", operator.mod),
}
