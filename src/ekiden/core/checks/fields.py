"""Checks the fields of a configuration object against the types and limits that its class declares.

A class calls `check_fields` in its `__post_init__`, or inherits `Checked`. The annotation of a
field gives its type, and an `Allowed` in the annotation gives its limits. These rules are read when
a field first has a value other than its default, and are then cached for the class.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set as AbstractSet
from dataclasses import MISSING, fields, is_dataclass
from enum import StrEnum
from functools import cache, wraps
from itertools import compress
from math import inf
from operator import attrgetter, is_not
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    NamedTuple,
    TypeAlias,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

from ekiden.core.checks.kinds import Allowed
from ekiden.core.errors import UserError
from ekiden.core.text.wording import MODEL_NAME

F = TypeVar("F", bound=Callable[..., Any])
Test: TypeAlias = Callable[[Any], bool]

Name: TypeAlias = Annotated[str, Allowed(what="a name", filled=True)]
"""A name, which must not be blank."""
ModelName: TypeAlias = Annotated[str, Allowed(what="provider:model", form=MODEL_NAME)]
"""The name of a model, such as ``openai:gpt-5-mini`` or ``gpt-5-mini``."""
Text: TypeAlias = Annotated[str, Allowed(filled=True)]
"""A text that must not be blank."""
Count: TypeAlias = Annotated[int, Allowed(low=1, high=inf)]
"""A whole number above 0."""
Seconds: TypeAlias = Annotated[float, Allowed(exclusive=True, high=inf)]
"""A number of seconds, which must be above 0."""
Positive: TypeAlias = Seconds
Amount: TypeAlias = Annotated[float, Allowed(high=inf)]
"""A number that must not be below 0."""
WholeAmount: TypeAlias = Annotated[int, Allowed(high=inf)]
"""A whole number that must not be below 0."""


def either(name: str, value: Any, other_name: str, other: Any) -> Any:
    """Return the one of two arguments that the caller passed. Raises `UserError` if the caller
    passed both."""
    if value and other:
        raise UserError(f"`{name}` and `{other_name}` mean the same: give one of them")
    return other if other else value


def check_fields(value: Any, whose: str | None = None) -> None:
    """Raise `UserError` for the first field that does not match its annotation.

    The message names `whose`, or the class if `whose` is not given. A list in a tuple field is
    converted to a tuple.
    """
    kind: Any = type(value)
    inputs, defaults, read_values = _inputs(kind)
    values = read_values(value)
    # Nearly all fields have their defaults: skip these in C, which is much faster than a loop.
    changed = compress(zip(inputs, values, strict=True), map(is_not, values, defaults))
    for (name, factory, is_checked), found in changed:
        if type(found) is factory and (is_checked or not found):
            continue
        rule = _rules(kind)[name]
        if rule.test is not None and not rule.test(found):
            label = f"{kind.__name__}.{name}" if whose is None else f"`{name}` of {whose}"
            raise UserError(refusal(label, rule.words, found))
        if rule.is_tuple and type(found) is list:
            object.__setattr__(value, name, tuple(found))


def check_argument(label: str, hint: Any, value: Any) -> None:
    """Raise `UserError` unless `value` matches the type `hint`. The message begins with `label`."""
    rule = _rule(hint)
    if rule.test is not None and not rule.test(value):
        raise UserError(refusal(label, rule.words, value))


def refusal(label: str, words: str, value: object) -> str:
    """The error message for a value that does not match the description `words`."""
    hint = ""
    if isinstance(value, str) and "list of" in words:
        hint = f": write [{value[:40]!r}]"
    elif inspect.isclass(value) and not isinstance(value, NoneType):
        hint = ": give an object, not its class"
    shown = repr(value)
    shown = shown if len(shown) <= 60 else f"{shown[:57]}…"
    return f"{label} must be {words}, not {shown} ({type(value).__name__}){hint}"


def checked_arguments(function: F) -> F:
    """A decorator that makes a function raise `UserError` for arguments that do not match its
    annotations."""
    parameters = inspect.signature(function).parameters.values()
    names = [each.name for each in parameters if each.kind is each.POSITIONAL_OR_KEYWORD]
    label = function.__qualname__.removesuffix(".__init__")
    rules: dict[str, _Rule] = {}

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if not rules:
            rules.update({name: _rule(hint) for name, hint in _hints(function).items()})
        for name, value in (*zip(names, args, strict=False), *kwargs.items()):
            rule = rules.get(name)
            if rule is not None and rule.test is not None and not rule.test(value):
                raise UserError(refusal(f"`{name}` of {label}", rule.words, value))
        return function(*args, **kwargs)

    return cast("F", call)


class Checked:
    """Base class of dataclasses that check their fields on creation."""

    __slots__ = ()

    def __post_init__(self) -> None:
        check_fields(self)


class _Rule(NamedTuple):
    test: Test | None
    """`None`: every value passes."""
    words: str
    is_tuple: bool = False


class _Input(NamedTuple):
    """A field that `__init__` takes."""

    name: str
    factory: object
    """The default factory, or `None`."""
    is_checked: bool
    """Whether the factory is a dataclass, which checks its own fields."""


@cache
def _inputs(
    kind: type[Any],
) -> tuple[tuple[_Input, ...], tuple[Any, ...], Callable[[Any], tuple[Any, ...]]]:
    """The fields that `__init__` takes, their defaults, and a function that reads all values."""
    found = [each for each in fields(kind) if each.init]
    inputs = tuple(
        _Input(
            name=each.name,
            factory=None if each.default_factory is MISSING else each.default_factory,
            is_checked=is_dataclass(each.default_factory),
        )
        for each in found
    )
    defaults = tuple(each.default for each in found)
    if len(found) > 1:
        return inputs, defaults, attrgetter(*(each.name for each in found))

    def read(value: Any) -> tuple[Any, ...]:
        # With one name, `attrgetter` would return the value itself and not a tuple.
        return tuple(getattr(value, each.name) for each in found)

    return inputs, defaults, read


@cache
def _rules(kind: type[Any]) -> dict[str, _Rule]:
    return {name: _rule(hint) for name, hint in _hints(kind).items()}


def _hints(kind: Any) -> dict[str, Any]:
    """The annotations. Names that only type checkers import accept any value."""
    unknown: dict[str, Any] = {}
    while True:
        try:
            return get_type_hints(kind, localns=unknown, include_extras=True)
        except NameError as exc:
            if exc.name is None or exc.name in unknown:
                raise
            unknown[exc.name] = _Anything


class _Anything:
    """Replaces a type that is not imported at run time."""

    def __class_getitem__(cls, _: object) -> type[_Anything]:
        return cls


def _rule(hint: Any, limits: Allowed | None = None) -> _Rule:
    origin, args = get_origin(hint), get_args(hint)
    if origin is Annotated:
        own = next((each for each in args[1:] if isinstance(each, Allowed)), limits)
        return _rule(args[0], own)
    if hint in (Any, object, _Anything) or isinstance(hint, TypeVar):
        return _Rule(None, "anything")
    if hint in (None, NoneType):
        return _Rule(lambda value: value is None, "None")
    if hint is bool:
        return _Rule(lambda value: isinstance(value, bool), "True or False")
    if hint in (int, float):
        return _number(hint, limits)
    if hint is str:
        return _text(limits)
    if origin is Literal:
        words = ", ".join(map(repr, args))
        return _Rule(_one_of(args), f"one of {words}" if len(args) > 1 else words)
    if origin in (Union, UnionType):
        return _union([_rule(each, limits) for each in args])
    if origin is type or hint is type:
        return _Rule(
            lambda value: isinstance(value, type) or get_origin(value) is not None, "a type"
        )
    kind = origin or hint
    if not isinstance(kind, type):
        return _Rule(None, "anything")
    if issubclass(kind, Iterable) and not is_dataclass(kind) and args:
        return _container(kind, args)
    return _object(kind)


def _number(hint: type, limits: Allowed | None) -> _Rule:
    kinds = int if hint is int else int | float
    words = "a whole number" if hint is int else "a number"

    def is_number(value: Any) -> bool:
        if not isinstance(value, kinds) or isinstance(value, bool):
            return False
        return abs(value) <= sys.float_info.max  # False for NaN, and for a huge whole number.

    if limits is None:
        return _Rule(is_number, words)
    low, high, exclusive = limits.low, limits.high, limits.exclusive

    def is_within(value: Any) -> bool:
        return is_number(value) and low <= value <= high and not (exclusive and value == low)

    if exclusive:
        words += f" above {low:g}"
    elif high in (inf, Allowed().high):
        words += f" of {low:g} or more"
    else:
        words += f" from {low:g} to {high:g}"
    return _Rule(is_within, words)


def _text(limits: Allowed | None) -> _Rule:
    if limits is None:
        return _Rule(lambda value: isinstance(value, str), "a text")
    filled, form = limits.filled, None if limits.form is None else re.compile(limits.form)
    return _Rule(
        lambda value: (
            isinstance(value, str)
            and (not filled or bool(value.strip()))
            and (form is None or form.fullmatch(value) is not None)
        ),
        _FILLED if limits.what == "text" and filled else limits.what,
    )


def _one_of(options: tuple[Any, ...]) -> Test:
    """A test for `Literal`; a member of a `StrEnum` counts as its text."""
    return lambda value: any(
        value == each and (type(value) is type(each) or isinstance(value, StrEnum))
        for each in options
    )


def _union(parts: Sequence[_Rule]) -> _Rule:
    *others, last = dict.fromkeys(each.words for each in parts)
    words = f"{', '.join(others)} or {last}" if others else last
    tests = [each.test for each in parts if each.test is not None]
    is_tuple = any(each.is_tuple for each in parts)
    if len(tests) < len(parts):
        return _Rule(None, words)

    def is_one(value: Any) -> bool:
        for test in tests:  # noqa: SIM110 - twice as fast, and every agent is checked with it
            if test(value):
                return True
        return False

    return _Rule(is_one, words, is_tuple)


def _container(kind: type, args: tuple[Any, ...]) -> _Rule:
    """The rule of a list, set or mapping. A text is refused, although it is iterable."""
    members = [_rule(each) for each in args if each is not Ellipsis]
    if issubclass(kind, Mapping):
        of_key, of_value = members
        return _Rule(
            lambda value: (
                isinstance(value, Mapping)
                and _all(of_key.test, value.keys())
                and _all(of_value.test, value.values())
            ),
            f"a mapping of {_plural(of_key.words)} to {_plural(of_value.words)}",
        )
    is_tuple = kind is tuple
    if is_tuple and args[-1] is not Ellipsis:
        return _Rule(lambda value: isinstance(value, tuple) and len(value) == len(args), "a tuple")
    accepted: Any = list | tuple if is_tuple else kind
    if kind is not list and not is_tuple:
        accepted = kind | list | tuple | AbstractSet if issubclass(kind, Iterable) else kind
    test = members[0].test
    return _Rule(
        lambda value: (
            isinstance(value, accepted) and not isinstance(value, str | bytes) and _all(test, value)
        ),
        f"a list of {_plural(members[0].words)}",
        is_tuple,
    )


def _all(test: Test | None, values: Iterable[Any]) -> bool:
    # An iterator must not be consumed here: its members are not checked.
    return test is None or not isinstance(values, Collection) or all(map(test, values))


def _object(kind: type) -> _Rule:
    if kind.__name__ == "Callable":
        return _Rule(callable, "a function")
    if getattr(kind, "_is_protocol", False):
        names = [
            name
            for each in kind.__mro__
            if getattr(each, "_is_protocol", False)
            for name in vars(each)
            if name == "__call__" or not name.startswith("_")
        ]
        return _Rule(
            lambda value: not isinstance(value, type) and all(hasattr(value, x) for x in names),
            f"{_article(kind.__name__)} (with {', '.join(f'`{name}`' for name in names[:3])})",
        )
    if issubclass(kind, tuple) and hasattr(kind, "_fields"):
        rules = [_rule(hint) for hint in _hints(kind).values()]
        return _Rule(
            lambda value: (
                isinstance(value, kind)
                and all(_all(rule.test, [each]) for rule, each in zip(rules, value, strict=True))
            ),
            f"{_article(kind.__name__)} with {', '.join(kind._fields)}",
        )
    return _Rule(lambda value: isinstance(value, kind), f"{_article(kind.__name__)} object")


def _article(name: str) -> str:
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"


_FILLED = "a text that is not empty"
_PLURALS = {
    "a text": "texts",
    _FILLED: "texts that are not empty",
    "text": "texts",
    "a name": "names",
    "anything": "values",
}


def _plural(words: str) -> str:
    if words in _PLURALS:
        return _PLURALS[words]
    parts = [each.removeprefix("a ").removeprefix("an ") for each in words.split(" or ")]
    return " or ".join(f"{each}s" if each.endswith(" object") else each for each in parts)
