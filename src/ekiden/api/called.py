"""The interface for callers without an event loop: one line for each method, with its types."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from functools import wraps
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

from ekiden.api.portal import Portal
from ekiden.api.streams import AsyncStream, Stream
from ekiden.api.values import PAGE, Page, Pages

P = ParamSpec("P")
T = TypeVar("T")


class Called:
    """A resource for synchronous code."""

    def __init__(self, awaited: Any, portal: Portal) -> None:
        self._awaited = awaited
        self._portal = portal


class calls(Generic[P, T]):
    """A method with one result: ``create = calls(Keys.create)``."""

    def __init__(self, function: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]) -> None:
        self._function = function
        self.__doc__ = function.__doc__

    def __get__(self, resource: Called, owner: type) -> Callable[P, T]:
        method: Callable[P, Coroutine[Any, Any, T]] = getattr(
            resource._awaited, self._function.__name__
        )
        portal = resource._portal

        @wraps(self._function)
        def bound(*args: P.args, **kwargs: P.kwargs) -> T:
            return portal.run(method(*args, **kwargs))

        return bound


class lists(Generic[P, T]):
    """A method that returns a list."""

    def __init__(self, function: Callable[Concatenate[Any, P], Pages[T]]) -> None:
        self._function = function
        self.__doc__ = function.__doc__

    def __get__(self, resource: Called, owner: type) -> Callable[P, CalledPages[T]]:
        method = getattr(resource._awaited, self._function.__name__)
        portal = resource._portal

        @wraps(self._function)
        def bound(*args: P.args, **kwargs: P.kwargs) -> CalledPages[T]:
            return CalledPages(method(*args, **kwargs), portal)

        return bound


class streams(Generic[P, T]):
    """A method that returns a stream."""

    def __init__(self, function: Callable[Concatenate[Any, P], AsyncStream[T]]) -> None:
        self._function = function
        self.__doc__ = function.__doc__

    def __get__(self, resource: Called, owner: type) -> Callable[P, Stream[T]]:
        method = getattr(resource._awaited, self._function.__name__)
        portal = resource._portal

        @wraps(self._function)
        def bound(*args: P.args, **kwargs: P.kwargs) -> Stream[T]:
            return Stream(method(*args, **kwargs), portal)

        return bound


class CalledPages(Generic[T]):
    """A list: iterate over all of it, or get a part with `page`."""

    def __init__(self, pages: Pages[T], portal: Portal) -> None:
        self._pages, self._portal = pages, portal

    def page(self, *, limit: int = PAGE, cursor: str | None = None) -> Page[T]:
        """At most `limit` entries, starting at `cursor`, the `next_cursor` of another page."""
        return self._portal.run(self._pages.page(limit=limit, cursor=cursor))

    def __iter__(self) -> Iterator[T]:
        return _each(self._pages.__aiter__(), self._portal)


def _each(members: AsyncIterator[T], portal: Portal) -> Iterator[T]:
    while True:
        try:
            yield portal.run(_next(members))
        except StopAsyncIteration:
            return


async def _next(members: AsyncIterator[T]) -> T:
    return await members.__anext__()
