"""A run's events as an iterator that may be left at any moment.

A nest of async generators that nobody closes is closed by the event loop, in no order, and breaks.
So one task reads the run, and nothing else; whoever iterates asks it for one event at a time. It is
cancelled when the iterator is closed or forgotten, and closes everything below it in order.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, suppress
from typing import Any, Generic, TypeVar

_log = logging.getLogger("ekiden.runtime")

T = TypeVar("T")

_END = object()
_reading: set[asyncio.Task[None]] = set()
"""Event loops hold tasks weakly."""


class EventStream(Generic[T]):
    """Events of a run, one for each that is asked for: the run goes on while somebody reads.

    Leaving the loop cancels the run and keeps the session; `aclose` waits until that is stored.
    """

    def __init__(self, source: Callable[[], AsyncGenerator[T, None]]) -> None:
        self._pipe = _Pipe(source)

    def __aiter__(self) -> EventStream[T]:
        return self

    async def __anext__(self) -> T:
        try:
            shown = await self._pipe.next()
        except asyncio.CancelledError:
            await self.aclose()
            raise
        if shown is _END:
            raise StopAsyncIteration
        return shown  # type: ignore[no-any-return]

    async def aclose(self) -> None:
        """End the stream; returns when what it left is stored."""
        self._pipe.stop()
        await self._pipe.ended()

    def stop(self) -> None:
        """End the stream as soon as possible, for whoever reads it."""
        self._pipe.stop()

    def __del__(self) -> None:
        pipe = self._pipe
        if pipe.task is not None and not pipe.task.done():
            with suppress(RuntimeError):  # The loop is closed.
                pipe.task.get_loop().call_soon_threadsafe(pipe.stop)


class _Pipe:
    """What the reading task and the iterator share."""

    def __init__(self, source: Callable[[], AsyncGenerator[Any, None]]) -> None:
        self._source = source
        self._slot: asyncio.Future[Any] | None = None
        self._wanted = asyncio.Event()
        self._is_over = False
        self.task: asyncio.Task[None] | None = None

    async def next(self) -> Any:
        """The next event, or `_END` once everything is stored."""
        if self._is_over:
            await self.ended()
            return _END
        self._slot = asyncio.get_running_loop().create_future()
        self._wanted.set()
        if self.task is None:
            self.task = asyncio.create_task(self._read())
            _reading.add(self.task)
            self.task.add_done_callback(_reading.discard)
        return await self._slot

    async def ended(self) -> None:
        """Return when nobody reads the run any more."""
        if self.task is not None:
            await asyncio.wait({self.task})

    def stop(self) -> None:
        """Read no further."""
        self._is_over = True
        if self.task is not None:
            self.task.cancel()

    async def _read(self) -> None:
        try:
            async with aclosing(self._source()) as source:
                async for shown in source:
                    self._wanted.clear()
                    self._give(shown)
                    await self._wanted.wait()
        except asyncio.CancelledError:
            if not self._is_over:
                raise
        except BaseException as exc:
            self._fail(exc)
        finally:
            self._is_over = True
            self._give(_END)

    def _give(self, shown: Any) -> None:
        if self._slot is not None and not self._slot.done():
            self._slot.set_result(shown)

    def _fail(self, exc: BaseException) -> None:
        if self._slot is not None and not self._slot.done():
            self._slot.set_exception(exc)
        else:
            _log.error("a run failed that nobody reads any more", exc_info=exc)
