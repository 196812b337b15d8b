"""What a method of the interface is over HTTP: said once, at the method."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, Literal, TypeAlias, TypeVar, get_args, get_origin, get_type_hints

F = TypeVar("F", bound=Callable[..., Any])

Scope: TypeAlias = Literal["read", "run", "answer", "admin"]
"""`read`: look at everything of the tenant; `run`: start runs, hand over, change sessions, state
and memory; `answer`: decide what people are asked; `admin`: all of it, and remove and restore."""
Method: TypeAlias = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
Etag: TypeAlias = Callable[[Any, Mapping[str, Any]], int | None]
"""A version of an answer, which is told with what the method was given; `None` if it has none."""

_MARK: Final = "__endpoint__"
_NO_MORE: Final[Mapping[str, Any]] = {}
_WITH_BODY: Final = frozenset({"POST", "PUT", "PATCH"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """Where a method of the interface stands, and who may call it."""

    method: Method
    path: str
    """Parameters of the method that stand in braces are parts of it."""
    scope: Scope
    status: int
    """Of an answer."""
    problems: tuple[int, ...]
    """What else it may answer, beside what every route may."""
    is_secret: bool
    """Whether the answer is kept nowhere, so that a request is sent once and cannot be repeated."""
    cursor: str | None
    """The pattern of the cursors of a list."""
    is_whole: bool
    """Of a list that comes in one page."""
    file: str | None
    """The answer is a stream: JSON lines, which browsers keep as a file of this name."""
    location: str | None
    """The method that gives what this one makes: the answer tells its address."""
    flag: str | None
    """The field of the body that chooses this method, among those with the same path."""
    body: str | None
    """What the OpenAPI document calls the body, if the usual name means something else."""
    etag: Etag | None
    """The version that the header `ETag` of the answer tells."""
    body_schema: Mapping[str, Any]
    """What else JSON Schema is to say of the body."""
    pending: str | None
    """What it means that the status is 202, which it is while the value `is_pending`."""
    read_at: str | None
    """Where the value `{0}` can be read from then on, as a pattern for `str.format`."""


@dataclass(frozen=True, slots=True)
class Told:
    """What is to be known of a parameter: for people, and what is taken from outside.

    Its place is in the annotation: ``Annotated[str | None, Told("Only those of this user.")]``.
    """

    text: str
    min_length: int | None = None
    max_length: int | None = None
    pattern: str | None = None
    ge: float | None = None
    gt: float | None = None
    le: float | None = None
    examples: tuple[Any, ...] | None = None
    is_unique: bool = False
    """Of a list, in which each stands once."""
    in_query: bool = False
    """It stands in the query, though the request has a body."""
    in_header: bool = False
    """Whether it is sent as the header of its name, such as `If-Match` for `if_match`."""
    if_match: bool = False
    """It is the header `If-Match`: a version that was looked at, or several."""


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
    def in_header(self) -> bool:
        """Whether it is a header of the request."""
        return self.told is not None and self.told.in_header


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
    file: str | None = None,
    location: str | None = None,
    flag: str | None = None,
    body: str | None = None,
    etag: Etag | None = None,
    body_schema: Mapping[str, Any] = _NO_MORE,
    pending: str | None = None,
    read_at: str | None = None,
) -> Callable[[F], F]:
    """Say what a method is over HTTP; see `Endpoint`."""
    about = Endpoint(
        method=method,
        path=path,
        scope=scope,
        status=status,
        problems=problems,
        is_secret=is_secret,
        cursor=cursor,
        is_whole=is_whole,
        file=file,
        location=location,
        flag=flag,
        etag=etag,
        body_schema=body_schema,
        body=body,
        pending=pending,
        read_at=read_at,
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
    """What a method takes, but for `self`."""
    function = getattr(interface, name)
    hints = get_type_hints(function, include_extras=True)
    about = endpoints(interface)[name]
    return tuple(
        _parameter(each, hints[each.name], about)
        for each in list(inspect.signature(function).parameters.values())[1:]
    )


@cache
def answer_type(interface: type, name: str) -> Any:
    """What a method gives; `Pages[X]` for a list of `X`, `AsyncStream[X]` for a stream."""
    return get_type_hints(getattr(interface, name))["return"]


def _parameter(each: inspect.Parameter, hint: Any, about: Endpoint) -> Parameter:
    hint, told = told_of(hint)
    in_path = f"{{{each.name}}}" in about.path or f"{{{each.name}:path}}" in about.path
    is_beside = told is not None and (told.in_query or told.in_header or told.if_match)
    return Parameter(
        name=each.name,
        type=hint,
        told=told,
        default=each.default,
        in_path=in_path,
        in_body=about.method in _WITH_BODY and not (in_path or is_beside),
    )


def told_of(hint: Any) -> tuple[Any, Told | None]:
    """A type, and what is told of it where it is annotated."""
    if not hasattr(hint, "__metadata__"):
        return hint, None
    told = next((part for part in hint.__metadata__ if isinstance(part, Told)), None)
    return get_args(hint)[0], told


def member_type(pages: Any) -> Any:
    """`X` of `Pages[X]`; `None` for what is no list."""
    from ekiden.api.pages import Pages

    return get_args(pages)[0] if get_origin(pages) is Pages else None


def streamed_type(stream: Any) -> Any:
    """`X` of `AsyncStream[X]`; `None` for what is no stream."""
    from ekiden.api.streams import AsyncStream

    return get_args(stream)[0] if get_origin(stream) is AsyncStream else None
