"""Checks the arguments of local callers by the same rules as requests, with the same error."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import NoneType, UnionType
from typing import Any, Final, Literal, TypeVar, Union, cast, get_args, get_origin

from ekiden.api.methods.endpoint import (
    Endpoint,
    Param,
    Parameter,
    arguments,
    endpoints,
    param_of,
    parameters,
)
from ekiden.api.methods.values import MOMENT, SAID, SESSION_ID, Page, Pages
from ekiden.core.errors.server import RequestInvalid
from ekiden.core.text.wording import is_unicode

T = TypeVar("T")

_LONGEST_CURSOR: Final = 512
_WORDS: Final = {
    SESSION_ID: "is not a valid id: use letters, digits and _ - . : @",
    SAID: "says nothing",
    MOMENT: "is not a time: give a date, a date with a time, or how long ago, as 30m or 7d",
}
"""The message for a text that does not match a pattern."""
_BOUNDS: Final = {
    "min_length": "is shorter than",
    "max_length": "is longer than",
    "ge": "must be at least",
    "gt": "must be more than",
    "le": "must be at most",
}


def checked(interface: type, implementation: T) -> T:
    """Return a proxy of the implementation. The methods of the proxy raise `RequestInvalid` for
    invalid arguments."""
    proxy: Any = _Checked(interface, implementation)
    return cast("T", proxy)


def check_arguments(interface: type, name: str, **given: Any) -> None:
    """Raise `RequestInvalid` for invalid arguments of the method `name`."""
    _check_all(parameters(interface, name), given)


class _Checked:
    """Creates each method at first use, because reading all declarations takes longer than most
    commands."""

    def __init__(self, interface: type, implementation: Any) -> None:
        self._interface, self._implementation = interface, implementation

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._implementation, name)
        if name in endpoints(self._interface):
            method = _method(self._interface, name, method)
        setattr(self, name, method)
        return method


def _method(interface: type, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    params = parameters(interface, name)
    about = endpoints(interface)[name]
    signature = inspect.signature(function)

    def check(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        _check_all(params, arguments(signature, params, *args, **kwargs))

    async def awaited(*args: Any, **kwargs: Any) -> Any:
        check(args, kwargs)
        return await function(*args, **kwargs)

    def called(*args: Any, **kwargs: Any) -> Any:
        check(args, kwargs)
        found = function(*args, **kwargs)
        return _checked_pages(found, about) if isinstance(found, Pages) else found

    call = awaited if inspect.iscoroutinefunction(function) else called
    call.__doc__, call.__name__ = getattr(interface, name).__doc__, name
    vars(call)["__signature__"] = signature
    return call


def _checked_pages(pages: Pages[Any], about: Endpoint) -> Pages[Any]:
    limits = Param("", ge=1, le=about.most)
    form = Param("", pattern=about.cursor, max_length=_LONGEST_CURSOR)

    async def fetch(limit: int, cursor: str | None) -> Page[Any]:
        _check("limit", int, limits, limit)
        if cursor is not None:
            _check("cursor", str, form, cursor)
        return await pages.page(limit=limit, cursor=cursor)

    return Pages(fetch)


def _check_all(params: Sequence[Parameter], given: Mapping[str, Any]) -> None:
    for each in params:
        if (value := given.get(each.name)) is not None:
            _check(each.name, each.type, each.param or Param(""), value)


def _check(name: str, hint: Any, param: Param, value: Any) -> None:
    options = _options(hint)
    parts = value if isinstance(value, Sequence) and not isinstance(value, str | bytes) else [value]
    if options and any(part not in options for part in parts):
        _refuse(name, f"must be one of {', '.join(map(str, options))}")
    if isinstance(value, str | Sequence | Mapping):
        if param.min_length is not None and len(value) < param.min_length:
            _refuse(name, _beyond("min_length", param.min_length, value))
        if param.max_length is not None and len(value) > param.max_length:
            _refuse(name, _beyond("max_length", param.max_length, value))
    if isinstance(value, str) and not is_unicode(value):
        _refuse(name, "has a lone surrogate, which JSON cannot carry")
    if param.pattern is not None and isinstance(value, str) and not _fits(param.pattern, value):
        _refuse(name, _unfitting(param.pattern, value))
    if param.is_unique and len(set(parts)) < len(parts):
        _refuse(name, "a value is listed twice")
    if isinstance(value, int | float):
        if param.ge is not None and not value >= param.ge:
            _refuse(name, _beyond("ge", param.ge, value))
        if param.gt is not None and not value > param.gt:
            _refuse(name, _beyond("gt", param.gt, value))
        if param.le is not None and not value <= param.le:
            _refuse(name, _beyond("le", param.le, value))
    for inner, part in _parts(hint, value):
        kind, about = param_of(inner)
        if about is not None:
            _check(name, kind, about, part)


def problem_of(bounds: Mapping[str, Any], value: Any) -> str | None:
    """A description of the fault of a value that is outside of `bounds`. `None` if the bounds are
    of another kind."""
    if "pattern" in bounds:
        return _unfitting(bounds["pattern"], str(value))
    return next((_beyond(name, bounds[name], value) for name in _BOUNDS if name in bounds), None)


def _beyond(bound: str, limit: float, value: Any) -> str:
    """The fault of a value beyond a bound, in words; `bound` is a field name of `Param`."""
    if (bound, limit) == ("min_length", 1):
        return "is empty"
    words = f"{_BOUNDS[bound]} {limit:,.15g}"
    if not bound.endswith("_length"):
        return words
    return f"{words} {'characters' if isinstance(value, str) else 'entries'}"


def _unfitting(pattern: str, value: str) -> str:
    """The fault of a text that does not match the pattern, in words."""
    words = _WORDS.get(pattern, "has characters that are not allowed here")
    return f"{value[:40]!r} {words}"


def _fits(pattern: str, value: str) -> bool:
    """Whether the value matches, as in JSON Schema: `$` matches only at the very end, and not
    before a final line break."""
    return re.search(re.sub(r"\$(?=\)*$)", r"\\Z", pattern), value) is not None


def _parts(hint: Any, value: Any) -> Iterator[tuple[Any, Any]]:
    """The members of a list, or the keys and values of an object, each with its type. For a union:
    the value with the types that fit."""
    if get_origin(hint) in (Union, UnionType):
        yield from ((each, value) for each in get_args(hint) if _is_of(param_of(each)[0], value))
    if get_origin(hint) is Mapping and isinstance(value, Mapping):
        for pair in value.items():
            yield from zip(get_args(hint), pair, strict=True)
    if get_origin(hint) is Sequence and not isinstance(value, str):
        for part in value:
            yield get_args(hint)[0], part


def _is_of(hint: Any, value: Any) -> bool:
    if get_origin(hint) is Sequence:
        return isinstance(value, Sequence) and not isinstance(value, str | bytes)
    return hint is str and isinstance(value, str)


def _options(hint: Any) -> tuple[Any, ...]:
    """The allowed values; empty if all values of the type are allowed."""
    if get_origin(hint) is Literal:
        return get_args(hint)
    if get_origin(hint) is Sequence:
        return _options(param_of(get_args(hint)[0])[0])
    if get_origin(hint) in (Union, UnionType):
        others = [each for each in get_args(hint) if each is not NoneType]
        return _options(others[0]) if len(others) == 1 else ()
    return ()


def _refuse(name: str, problem: str) -> None:
    raise RequestInvalid(f"{name}: {problem}")
