"""Declares the HTTP form of a method with a decorator, and checks arguments by it.

The arguments of local callers are checked by the same rules as requests, with the same error.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from datetime import datetime
from functools import cache
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Final,
    Literal,
    TypeAlias,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

from ekiden.api.methods.called import AsyncStream
from ekiden.api.methods.values import MOMENT, ONE_LINE, PLAIN, SAID, SESSION_ID, Page, Pages
from ekiden.core.dataclass import dataclass
from ekiden.core.errors.server import RequestInvalid
from ekiden.core.text.wording import is_unicode

F = TypeVar("F", bound=Callable[..., Any])

Scope: TypeAlias = Literal["read", "run", "answer", "history", "admin"]
"""What a key may do. `read`: read all data of the tenant. `run`: start runs, make handoffs, change
sessions, state and memory. `answer`: answer inbox items. `history`: together with `run`, add system
messages, agents' answers and tool calls to a conversation. `admin`: everything, including deletion
and restore."""
Method: TypeAlias = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
Etag: TypeAlias = Callable[[Any, Mapping[str, Any]], int | None]
"""A function that gets a result and the arguments of the call. It returns the version of the
result, or `None` if the result has no version."""

_MARK: Final = "__endpoint__"
_NO_SCHEMA: Final[Mapping[str, Any]] = {}
_WITH_BODY: Final = frozenset({"POST", "PUT", "PATCH"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """The HTTP form of a method: its address, its required scope and its responses."""

    method: Method
    path: str
    """The path, with parameters of the method in braces."""
    scope: Scope
    status: int
    """The status of a successful response."""
    problems: tuple[int, ...]
    """The statuses of errors, in addition to the errors of every route."""
    is_secret: bool
    """Whether the response contains a secret. Such a response is never stored, so an idempotent
    retry is not possible."""
    cursor: str | None
    """The pattern of a list's cursors."""
    is_whole: bool
    """Whether a list has only one page."""
    most: int
    """The maximum number of entries in a page of a list."""
    is_large: bool
    """Whether the response is serialized in a thread, because its serialization takes long."""
    file: str | None
    """The name of the downloaded file, with parameters in braces. A stream is downloaded as JSON
    lines."""
    location: str | None
    """The method that reads the created object. Ekiden fills in the path of that method from the
    result and the arguments, and sends it as the header `Location` of the response."""
    flag: str | None
    """The condition that selects this method among methods with the same path: the name of a body
    field that must be true, or ``name=value`` in the query. If no condition is met, the first
    method with the path is called."""
    move: str | None
    """The value of the body field `move` that selects this method among methods with the same
    path."""
    operation: str | None
    """The operation id in the OpenAPI document, if several methods share the operation."""
    body: str | None
    """The schema name of the body in the OpenAPI document, if the derived name is taken."""
    etag: Etag | None
    """A function that returns the version for the header `ETag` of the response."""
    body_schema: Mapping[str, Any]
    """Additional JSON Schema of the body."""
    pending: str | None
    """The description of the status 202, which is sent while the result `is_pending`."""

    @property
    def choice(self) -> tuple[str, Any]:
        """The field or parameter that selects this method, and its value."""
        name, _, value = (self.flag or "").partition("=")
        return name, value or True


@dataclass(frozen=True, slots=True)
class Param:
    """The description of a parameter, and the values that it accepts.

    It is part of the annotation: ``Annotated[str | None, Param("Only runs of this user.")]``.
    """

    text: str
    min_length: int | None = None
    max_length: int | None = None
    pattern: str | None = None
    ge: float | None = None
    gt: float | None = None
    le: float | None = None
    examples: tuple[Any, ...] | None = None
    schema: Mapping[str, Any] | None = field(default=None, hash=False)
    """The JSON Schema, if it cannot be derived from the type."""
    default: Any = None
    """The default of an option of a `TypedDict`."""
    is_unique: bool = False
    """Whether the values of a list must be unique."""
    in_query: bool = False
    """Whether the parameter is in the query even if the request has a body."""
    has_at: bool = False
    """Whether the client writes @ before the value in the path, so that the server does not confuse
    the value with a fixed word of a path."""
    is_body: bool = False
    """Whether the parameter is the whole body: a document, or its bytes."""
    if_match: bool = False
    """Whether the parameter is the header `If-Match`, which contains the versions that the caller
    has read."""


def identifier(text: str) -> Param:
    """A parameter for the id of a session or of another object."""
    return Param(text, min_length=1, max_length=128, pattern=SESSION_ID)


def name_of(text: str, *, examples: tuple[str, ...] | None = None) -> Param:
    """The name of an agent."""
    return Param(text, min_length=1, max_length=200, pattern=ONE_LINE, examples=examples)


def filter_by(text: str, *, max_length: int = 200) -> Param:
    """A filter parameter: a text that entries of a list must match."""
    return Param(text, max_length=max_length, pattern=PLAIN)


SessionId: TypeAlias = Annotated[str, identifier("The session's id.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """A parameter of a method of the interface."""

    name: str
    type: Any
    param: Param | None
    default: Any
    """The default value; `inspect.Parameter.empty` for a required parameter."""
    in_path: bool
    in_body: bool

    @property
    def is_body(self) -> bool:
        """Whether the parameter is the whole body."""
        return self.param is not None and self.param.is_body


def endpoint(
    method: Method,
    path: str,
    *,
    scope: Scope,
    status: int = 200,
    problems: tuple[int, ...] = (),
    is_secret: bool = False,
    cursor: str | None = None,
    is_whole: bool = False,
    most: int = 1000,
    is_large: bool = False,
    file: str | None = None,
    location: str | None = None,
    flag: str | None = None,
    move: str | None = None,
    operation: str | None = None,
    body: str | None = None,
    etag: Etag | None = None,
    body_schema: Mapping[str, Any] = _NO_SCHEMA,
    pending: str | None = None,
) -> Callable[[F], F]:
    """A decorator that declares the HTTP form of a method. `Endpoint` describes the arguments."""
    about = Endpoint(
        method=method,
        path=path,
        scope=scope,
        status=status,
        problems=problems,
        is_secret=is_secret,
        cursor=cursor,
        is_whole=is_whole,
        most=most,
        is_large=is_large,
        file=file,
        location=location,
        flag=flag,
        move=move,
        operation=operation,
        etag=etag,
        body_schema=body_schema,
        body=body,
        pending=pending,
    )

    def decorate(function: F) -> F:
        setattr(function, _MARK, about)
        return function

    return decorate


@cache
def endpoints(interface: type) -> Mapping[str, Endpoint]:
    """The endpoints of an interface by method name, in the order of declaration."""
    found = {name: getattr(each, _MARK, None) for name, each in vars(interface).items()}
    return {name: about for name, about in found.items() if about is not None}


@cache
def parameters(interface: type, name: str) -> tuple[Parameter, ...]:
    """The parameters of a method, without `self`."""
    function = getattr(interface, name)
    hints = get_type_hints(function, include_extras=True)
    about = endpoints(interface)[name]
    found: list[Parameter] = []
    for each in list(inspect.signature(function).parameters.values())[1:]:
        if each.kind is inspect.Parameter.VAR_KEYWORD:
            found += _options(get_args(hints[each.name])[0], about)
        else:
            found.append(_parameter(each, hints[each.name], about))
    return tuple(found)


def arguments(
    signature: inspect.Signature, taken: tuple[Parameter, ...], *args: Any, **kwargs: Any
) -> dict[str, Any]:
    """Return the arguments of a call by parameter name. Raises `TypeError` for unknown
    arguments."""
    given = dict(signature.bind(*args, **kwargs).arguments)
    for each in signature.parameters.values():
        if each.kind is inspect.Parameter.VAR_KEYWORD:
            options = given.pop(each.name, {})
            for name in set(options) - {known.name for known in taken}:
                raise TypeError(f"there is no option {name!r}")
            given |= options
    return given


@cache
def answer_type(interface: type, name: str) -> Any:
    """The declared result type of a method. A method that lists values has the type `Pages[X]`; a
    method that streams values has the type `AsyncStream[X]`."""
    return get_type_hints(getattr(interface, name))["return"]


def _options(options: Any, about: Endpoint) -> Iterator[Parameter]:
    """The parameters in a `TypedDict` of options."""
    for name, hint in get_type_hints(options, include_extras=True).items():
        kind, param = param_of(hint)
        default = None if param is None else param.default
        if default is not None:
            kind = Union[tuple(part for part in get_args(kind) if part is not NoneType)]  # noqa: UP007
        yield Parameter(
            name=name,
            type=kind,
            param=param,
            default=default,
            in_path=False,
            in_body=about.method in _WITH_BODY,
        )


def _parameter(each: inspect.Parameter, hint: Any, about: Endpoint) -> Parameter:
    hint, param = param_of(hint)
    in_path = f"{{{each.name}}}" in about.path or f"{{{each.name}:path}}" in about.path
    is_elsewhere = param is not None and (param.in_query or param.if_match or param.is_body)
    return Parameter(
        name=each.name,
        type=hint,
        param=param,
        default=each.default,
        in_path=in_path,
        in_body=about.method in _WITH_BODY and not (in_path or is_elsewhere),
    )


def param_of(hint: Any) -> tuple[Any, Param | None]:
    """Return the type in an annotation, and its `Param`."""
    if not hasattr(hint, "__metadata__"):
        return hint, None
    param = next((part for part in hint.__metadata__ if isinstance(part, Param)), None)
    return get_args(hint)[0], param


def member_type(pages: Any) -> Any:
    """Return `X` for the type `Pages[X]`, and `None` for another type."""
    return get_args(pages)[0] if get_origin(pages) is Pages else None


def streamed_type(stream: Any) -> Any:
    """Return `X` for the type `AsyncStream[X]`, and `None` for another type."""
    return get_args(stream)[0] if get_origin(stream) is AsyncStream else None


T = TypeVar("T")

_LONGEST_CURSOR: Final = 512
_WORDS: Final = {
    SESSION_ID: "is not a valid id: use letters, digits and _ - . : @",
    SAID: "says nothing",
    MOMENT: "is not a time: give a date, a date with a time, or how long ago, as 30m or 7d",
}
"""The message for a text that does not match a pattern."""
_TYPES: Final[Mapping[Any, str]] = {
    str: "a text",
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    bytes: "bytes",
    datetime: "a datetime",
    Mapping: "an object",
    Sequence: "a list",
    Iterable: "a list",
}
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
        _check_type("limit", int, limit)
        _check("limit", int, limits, limit)
        if cursor is not None:
            _check_type("cursor", str, cursor)
            _check("cursor", str, form, cursor)
        return await pages.page(limit=limit, cursor=cursor)

    return Pages(fetch)


def _check_all(params: Sequence[Parameter], given: Mapping[str, Any]) -> None:
    for each in params:
        if (value := given.get(each.name)) is not None:
            _check_type(each.name, each.type, value)
            _check(each.name, each.type, each.param or Param(""), value)


def _check_type(name: str, hint: Any, value: Any) -> None:
    """Check the value, but not its members."""
    kinds = _kinds(hint)
    if not any(_is_of(each, value) for each in kinds):
        names = " or ".join(_TYPES[found] for each in kinds if (found := _class(each)) in _TYPES)
        _refuse(name, f"must be {names}, not {type(value).__name__}")


def _check(name: str, hint: Any, param: Param, value: Any) -> None:
    options = _options_of(hint)
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
        yield from ((each, value) for each in get_args(hint) if _is_of(each, value))
    if get_origin(hint) is Mapping and isinstance(value, Mapping):
        for pair in value.items():
            yield from zip(get_args(hint), pair, strict=True)
    if get_origin(hint) is Sequence and not isinstance(value, str):
        for part in value:
            yield get_args(hint)[0], part


def _kinds(hint: Any) -> tuple[Any, ...]:
    """The members of a union; for another type, the type."""
    return get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)


def _class(hint: Any) -> Any:
    """The class of a type: `Mapping` for ``Mapping[str, int]``."""
    kind = param_of(hint)[0]
    return get_origin(kind) or kind


def _is_of(hint: Any, value: Any) -> bool:
    kind = _class(hint)
    if kind in (int, float):
        return isinstance(value, int | kind) and not isinstance(value, bool)
    if kind is Sequence:
        return isinstance(value, Sequence) and not isinstance(value, str | bytes)
    return kind is Any or not isinstance(kind, type) or isinstance(value, kind)


def _options_of(hint: Any) -> tuple[Any, ...]:
    """The allowed values; empty if all values of the type are allowed."""
    if get_origin(hint) is Literal:
        return get_args(hint)
    if get_origin(hint) is Sequence:
        return _options_of(param_of(get_args(hint)[0])[0])
    if get_origin(hint) in (Union, UnionType):
        others = [each for each in get_args(hint) if each is not NoneType]
        return _options_of(others[0]) if len(others) == 1 else ()
    return ()


def _refuse(name: str, problem: str) -> None:
    raise RequestInvalid(f"{name}: {problem}")
