"""Events between a session and whoever iterates over it."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Generic, TypeVar

_T = TypeVar("_T")


class EventBuffer(Generic[_T]):
    """A queue that ends, perhaps with an error, after what is in it was taken."""

    def __init__(self, room: int) -> None:
        self._room = room
        self._events: deque[_T] = deque()
        self._changed = asyncio.Event()
        self._taken = asyncio.Event()
        self._error: BaseException | None = None
        self.is_over = False
        """Nothing more comes."""

    def put(self, event: _T) -> None:
        """Add an event, whether there is room or not; nothing once it is over."""
        if not self.is_over:
            self._events.append(event)
            self._changed.set()

    async def room(self) -> None:
        """Return when there is room for more."""
        while len(self._events) >= self._room and not self.is_over:
            self._taken.clear()
            await self._taken.wait()

    def end(self, error: BaseException | None = None) -> None:
        """Nothing more comes; the first call counts."""
        if not self.is_over:
            self.is_over, self._error = True, error
            self._changed.set()
            self._taken.set()

    async def take(self) -> _T:
        """The next event; `StopAsyncIteration`, or the error it ended with, when there is none."""
        while not self._events:
            if self.is_over:
                raise StopAsyncIteration if self._error is None else self._error
            self._changed.clear()
            await self._changed.wait()
        self._taken.set()
        return self._events.popleft()
