"""One implementation for two clients: resources are written once, with `async def`.

A `Resource[Async]` gives its methods as they are. A `Resource[Sync]` gives the same ones as plain
functions, which run on an event loop in a thread of the client's own. The descriptors below tell
type checkers and editors which is which, with the parameters of the method.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping
from datetime import datetime
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, TypeVar, overload

from ekiden.api.portal import Portal
from ekiden.api.streams import AsyncStream, Stream
from ekiden.client.streams import AsyncPages, Listing, Pages

if TYPE_CHECKING:
    from ekiden.client.wire import Wire

P = ParamSpec("P")
T = TypeVar("T")
M = TypeVar("M", bound="Async | Sync")


class Async:
    """Marks resources whose methods are awaited."""


class Sync:
    """Marks resources whose methods are called."""


class Resource(Generic[M]):
    """A noun of the API, as an attribute of a client."""

    def __init__(self, wire: Wire, portal: Portal | None) -> None:
        self._wire = wire
        self._portal = portal
        """`None`: the caller has the event loop."""


class answers(Generic[P, T]):
    """A method that gives one answer."""

    def __init__(self, function: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]) -> None:
        self._function = function
        self.__doc__ = function.__doc__

    @overload
    def __get__(self, resource: Resource[Sync], owner: type) -> Callable[P, T]: ...
    @overload
    def __get__(
        self, resource: Resource[Async], owner: type
    ) -> Callable[P, Coroutine[Any, Any, T]]: ...
    def __get__(self, resource: Resource[Any], owner: type) -> Callable[P, Any]:
        portal, function = resource._portal, self._function

        @wraps(function)
        def bound(*args: P.args, **kwargs: P.kwargs) -> Any:
            running = function(resource, *args, **kwargs)
            return running if portal is None else portal.run(running)

        return bound


class streams(Generic[P, T]):
    """A method that gives things as they happen, until their end or until it is closed."""

    def __init__(self, function: Callable[Concatenate[Any, P], AsyncGenerator[T, None]]) -> None:
        self._function = function
        self.__doc__ = function.__doc__

    @overload
    def __get__(self, resource: Resource[Sync], owner: type) -> Callable[P, Stream[T]]: ...
    @overload
    def __get__(self, resource: Resource[Async], owner: type) -> Callable[P, AsyncStream[T]]: ...
    def __get__(self, resource: Resource[Any], owner: type) -> Callable[P, Any]:
        portal, function = resource._portal, self._function

        @wraps(function)
        def bound(*args: P.args, **kwargs: P.kwargs) -> Any:
            opened = AsyncStream(function(resource, *args, **kwargs))
            return opened if portal is None else Stream(opened, portal)

        return bound


class lists(Generic[P, T]):
    """A method that gives a list, which comes in pages."""

    def __init__(self, function: Callable[Concatenate[Any, P], Listing[T]]) -> None:
        self._function = function
        self.__doc__ = function.__doc__

    @overload
    def __get__(self, resource: Resource[Sync], owner: type) -> Callable[P, Pages[T]]: ...
    @overload
    def __get__(self, resource: Resource[Async], owner: type) -> Callable[P, AsyncPages[T]]: ...
    def __get__(self, resource: Resource[Any], owner: type) -> Callable[P, Any]:
        portal, wire, function = resource._portal, resource._wire, self._function

        @wraps(function)
        def bound(*args: P.args, **kwargs: P.kwargs) -> Any:
            pages = AsyncPages(wire.ask, function(resource, *args, **kwargs))
            return pages if portal is None else Pages(pages, portal)

        return bound


def given(**values: Any) -> Mapping[str, Any]:
    """Those that are not `None`: the server has its own defaults for the others."""
    return {name: value for name, value in values.items() if value is not None}


def moment_text(value: Any) -> Any:
    """A time as the server reads it; anything else as it is."""
    return value.astimezone().isoformat() if isinstance(value, datetime) else value
