"""Comparison and arithmetic over known values. Nothing here raises; `NoValue` says why not.

Every operator takes two known values and gives its result, or `NoValue` when there is none. An
operand that is `NoValue` makes the result that same `NoValue`, so that its reason travels on.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from itertools import chain, islice
from math import isfinite
from typing import Any, Final, TypeAlias

from ekiden.conditions.values import (
    ABSENT,
    MAX_NUMBER,
    NUMBERS,
    NoValue,
    is_list,
    is_mapping,
    items_of,
    kind_of,
    known,
    step_into,
)

Operator: TypeAlias = Callable[[Any, Any], Any]

_MAX_DEPTH = 40
_MAX_COMPARED = 10_000
"""So many values are compared to find out whether two structures are equal: a structure that
contains itself, or the same part many times, has no end worth waiting for."""

_SCALARS = frozenset({str, bool, type(None)})


def equal(left: Any, right: Any) -> Any:
    """Whether two values are the same; values of different kinds are not."""
    kind = type(left)
    if kind is type(right) and kind in _SCALARS:
        return left == right
    if kind in NUMBERS and type(right) in NUMBERS:
        return left == right
    return _Equality().compare(left, right)


def unequal(left: Any, right: Any) -> Any:
    """The opposite of `equal`, except that no value differs from nothing."""
    found = equal(left, right)
    return found if type(found) is NoValue else not found


class _Equality:
    """One comparison of two structures, which ends in any case."""

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
        if depth > _MAX_DEPTH or self._left_over < 0:
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
    """Whether a list has an item, a text a part, or a mapping a name."""
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
    """The opposite of `contained`, except that no value is outside of nothing."""
    found = contained(part, whole)
    return found if type(found) is NoValue else not found


def _member(part: Any, whole: Any) -> Any:
    """An item that has no value might be the one that is looked for: then nobody knows."""
    kind = type(part)
    number = kind in NUMBERS
    unsure: Any = False
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
    """The result of a calculation, if it is neither too large nor undefined."""
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
