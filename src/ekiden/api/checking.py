"""What is taken from callers of this process: the same as over HTTP, and refused with the same
error."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Sequence
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin

from ekiden.api.endpoint import Parameter, Told, endpoints, parameters
from ekiden.core.server_errors import RequestInvalid

T = TypeVar("T")


def checked(interface: type, implementation: T) -> T:
    """The implementation, whose methods refuse with `RequestInvalid` what no request may bring."""
    methods = {name: _method(interface, name, implementation) for name in endpoints(interface)}
    found: Any = type(f"Checked{interface.__name__}", (), methods)()
    proxy: T = found
    return proxy


def _method(interface: type, name: str, implementation: Any) -> Callable[..., Any]:
    function = getattr(implementation, name)
    taken = parameters(interface, name)
    signature = inspect.signature(function)

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        given = signature.bind(*args, **kwargs).arguments
        for each in taken:
            if each.name in given and (value := given[each.name]) is not None:
                _check(each, value)
        return function(*args, **kwargs)

    return call


def _check(each: Parameter, value: Any) -> None:
    told = each.told or Told("")
    options = _options(each.type)
    parts = value if isinstance(value, Sequence) and not isinstance(value, str | bytes) else [value]
    if options and any(part not in options for part in parts):
        _refuse(each, f"must be one of {', '.join(map(str, options))}")
    if isinstance(value, str | Sequence):
        if told.min_length is not None and len(value) < told.min_length:
            _refuse(each, f"is shorter than {told.min_length}")
        if told.max_length is not None and len(value) > told.max_length:
            _refuse(each, f"is longer than {told.max_length}")
    if told.pattern is not None and isinstance(value, str) and not re.search(told.pattern, value):
        _refuse(each, "is not written as it must be")
    if told.is_unique and len(set(parts)) < len(parts):
        _refuse(each, "something is named twice")
    if isinstance(value, int | float):
        if told.ge is not None and not value >= told.ge:
            _refuse(each, f"must be at least {told.ge:g}")
        if told.gt is not None and not value > told.gt:
            _refuse(each, f"must be more than {told.gt:g}")
        if told.le is not None and not value <= told.le:
            _refuse(each, f"must be at most {told.le:g}")


def _options(hint: Any) -> tuple[Any, ...]:
    """What a value, or each of several, may be; empty: anything of its type."""
    if get_origin(hint) is Literal:
        return get_args(hint)
    if get_origin(hint) is Sequence:
        return _options(get_args(hint)[0])
    if get_origin(hint) in (Union, UnionType):
        others = [each for each in get_args(hint) if each is not NoneType]
        return _options(others[0]) if len(others) == 1 else ()
    return ()


def _refuse(each: Parameter, problem: str) -> None:
    raise RequestInvalid(f"{each.name}: {problem}")
