"""The interface for synchronous code: streams, an event loop in a thread, typed calls."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Iterator
from functools import wraps
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar

from ekiden.api.methods.values import PAGE, Page, Pages

T = TypeVar("T")


class Portal:
    """Runs coroutines for synchronous functions of any thread, in a thread of its own. This thread
    starts on first use."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()
        self._closed = False

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run the coroutine and return its result. If the caller is interrupted, the coroutine is
        cancelled."""
        try:
            loop = self._opened()
        except RuntimeError:
            coroutine.close()
            raise
        future = asyncio.run_coroutine_threadsafe(coroutine, loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    @property
    def is_closed(self) -> bool:
        """Whether `close` was called."""
        return self._closed

    def close(self) -> None:
        """Stop the thread. A second call does nothing."""
        with self._starting:
            loop, thread, self._closed = self._loop, self._thread, True
            self._loop = self._thread = None
        if loop is not None and thread is not None:
            loop.call_soon_threadsafe(loop.stop)
            thread.join()

    def _opened(self) -> asyncio.AbstractEventLoop:
        with self._starting:
            if self._closed:
                raise RuntimeError("the client is closed")
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(
                    target=_run_loop, args=(self._loop,), name="ekiden-client", daemon=True
                )
                self._thread.start()
            return self._loop


def _run_loop(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
        tasks = asyncio.all_tasks(loop)
        for task in tasks:
            task.cancel()
        loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        loop.run_until_complete(loop.shutdown_asyncgens())
    finally:
        loop.close()


class AsyncStream(Generic[T]):
    """A stream of live values for ``async for``. If you may leave the loop early, use ``async
    with``, which closes the stream."""

    def __init__(self, source: AsyncGenerator[T, None]) -> None:
        self._source = source

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> T:
        return await self._source.__anext__()

    async def aclose(self) -> None:
        """Stop reading. The source of the stream continues."""
        await self._source.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.aclose()


class Stream(Generic[T]):
    """A stream of live values for ``for``. If you may leave the loop early, use ``with``, which
    closes the stream."""

    def __init__(self, source: AsyncStream[T], portal: Portal) -> None:
        self._source, self._portal = source, portal

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> T:
        try:
            return self._portal.run(_next(self._source))
        except StopAsyncIteration:
            raise StopIteration from None

    def close(self) -> None:
        """Stop reading. The source of the stream continues."""
        self._portal.run(self._source.aclose())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()


async def _next(members: AsyncIterator[T]) -> T:
    return await members.__anext__()


P = ParamSpec("P")


class Called:
    """Base class of resources for synchronous code."""

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
    """A list in pages. Iterate over all entries, or get one page with `page`."""

    def __init__(self, pages: Pages[T], portal: Portal) -> None:
        self._pages, self._portal = pages, portal

    def page(self, *, limit: int = PAGE, cursor: str | None = None) -> Page[T]:
        """Return a page of at most `limit` entries. `cursor` is the `next_cursor` of the previous
        page. Without `cursor`, this method returns the first page."""
        return self._portal.run(self._pages.page(limit=limit, cursor=cursor))

    def __iter__(self) -> Iterator[T]:
        return _each(self._pages.__aiter__(), self._portal)


def _each(members: AsyncIterator[T], portal: Portal) -> Iterator[T]:
    while True:
        try:
            yield portal.run(_next(members))
        except StopAsyncIteration:
            return
