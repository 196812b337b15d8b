"""The HTTP form of a method: declared once, at the method."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from types import NoneType
from typing import (
    Any,
    Final,
    Literal,
    TypeAlias,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

F = TypeVar("F", bound=Callable[..., Any])

Scope: TypeAlias = Literal["read", "run", "answer", "history", "admin"]
"""`read`: read everything of the tenant; `run`: start runs, make handoffs, change sessions, state
and memory; `answer`: answer inbox items; `history`: together with `run`, send system messages,
answers and tool calls that are stored as given; `admin`: everything, including deletion and
restore."""
Method: TypeAlias = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
Etag: TypeAlias = Callable[[Any, Mapping[str, Any]], int | None]
"""Returns the version of a result, from it and the arguments; `None` if it has none."""

_MARK: Final = "__endpoint__"
_NO_MORE: Final[Mapping[str, Any]] = {}
_WITH_BODY: Final = frozenset({"POST", "PUT", "PATCH"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """The address of a method, and who may call it."""

    method: Method
    path: str
    """Parameters of the method in braces are parts of it."""
    scope: Scope
    status: int
    """The status of a successful response."""
    problems: tuple[int, ...]
    """Further error statuses, besides those of every route."""
    is_secret: bool
    """Whether the response is never stored, so that a request cannot be repeated."""
    cursor: str | None
    """The pattern of the cursors of a list."""
    is_whole: bool
    """Whether a list comes in one page."""
    most: int
    """The most entries in a page of a list."""
    is_large: bool
    """Whether the response takes long to serialize, so that it yields to other requests."""
    file: str | None
    """The file name that browsers use, with parameters in braces; a stream is JSON lines."""
    location: str | None
    """The method that reads what this one creates: the response gives its address, filled in from
    the result and the arguments."""
    flag: str | None
    """Selects this method among those with the same path, the first of which is the default: a body
    field that is true, or ``name=value`` in the query."""
    move: str | None
    """The value of the body field `move` that selects this method among those with the same
    path."""
    operation: str | None
    """The operation id in the OpenAPI document, if several methods share the operation."""
    body: str | None
    """The schema name of the body in the OpenAPI document, if the usual name is taken."""
    etag: Etag | None
    """The version in the header `ETag` of the response."""
    body_schema: Mapping[str, Any]
    """Additional JSON Schema of the body."""
    pending: str | None
    """The meaning of status 202, used while the value `is_pending`."""

    @property
    def choice(self) -> tuple[str, Any]:
        """The field or parameter that selects this method, and its value."""
        name, _, value = (self.flag or "").partition("=")
        return name, value or True


@dataclass(frozen=True, slots=True)
class Told:
    """A parameter's description and the values that it accepts.

    It is placed in the annotation: ``Annotated[str | None, Told("Only those of this user.")]``.
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
    """Its JSON Schema, if the type is not enough."""
    default: Any = None
    """The default of an option of a `TypedDict`."""
    is_unique: bool = False
    """Whether the values of a list are unique."""
    in_query: bool = False
    """It is in the query, although the request has a body."""
    has_at: bool = False
    """A part of the path that begins with @, so that it is never taken for a fixed word."""
    is_body: bool = False
    """It is the whole body: a document, or its bytes."""
    if_match: bool = False
    """It is the header `If-Match`: one or more versions that were read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """A parameter of a method of the interface."""

    name: str
    type: Any
    told: Told | None
    default: Any
    """`inspect.Parameter.empty` if it must be given."""
    in_path: bool
    in_body: bool

    @property
    def is_body(self) -> bool:
        """Whether it is the whole body."""
        return self.told is not None and self.told.is_body


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
    body_schema: Mapping[str, Any] = _NO_MORE,
    pending: str | None = None,
) -> Callable[[F], F]:
    """Declare the HTTP form of a method; see `Endpoint`."""
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

    def give(function: F) -> F:
        setattr(function, _MARK, about)
        return function

    return give


@cache
def endpoints(interface: type) -> Mapping[str, Endpoint]:
    """The methods of an interface, by name, in their order."""
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
    """The arguments of a call, by parameter name; `TypeError` for unknown ones."""
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
    """The result type of a method; `Pages[X]` for a list of `X`, `AsyncStream[X]` for a stream."""
    return get_type_hints(getattr(interface, name))["return"]


def _options(options: Any, about: Endpoint) -> Iterator[Parameter]:
    """The parameters that a `TypedDict` stands for."""
    for name, hint in get_type_hints(options, include_extras=True).items():
        kind, told = told_of(hint)
        default = None if told is None else told.default
        if default is not None:
            kind = Union[tuple(part for part in get_args(kind) if part is not NoneType)]  # noqa: UP007
        yield Parameter(
            name=name,
            type=kind,
            told=told,
            default=default,
            in_path=False,
            in_body=about.method in _WITH_BODY,
        )


def _parameter(each: inspect.Parameter, hint: Any, about: Endpoint) -> Parameter:
    hint, told = told_of(hint)
    in_path = f"{{{each.name}}}" in about.path or f"{{{each.name}:path}}" in about.path
    is_beside = told is not None and (told.in_query or told.if_match or told.is_body)
    return Parameter(
        name=each.name,
        type=hint,
        told=told,
        default=each.default,
        in_path=in_path,
        in_body=about.method in _WITH_BODY and not (in_path or is_beside),
    )


def told_of(hint: Any) -> tuple[Any, Told | None]:
    """A type, and the description in its annotation."""
    if not hasattr(hint, "__metadata__"):
        return hint, None
    told = next((part for part in hint.__metadata__ if isinstance(part, Told)), None)
    return get_args(hint)[0], told


def member_type(pages: Any) -> Any:
    """`X` of `Pages[X]`; `None` if it is not a list."""
    from ekiden.api.methods.values import Pages

    return get_args(pages)[0] if get_origin(pages) is Pages else None


def streamed_type(stream: Any) -> Any:
    """`X` of `AsyncStream[X]`; `None` if it is not a stream."""
    from ekiden.api.methods.called import AsyncStream

    return get_args(stream)[0] if get_origin(stream) is AsyncStream else None
