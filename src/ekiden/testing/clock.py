"""A clock that a test moves by hand."""

from __future__ import annotations

import asyncio
import heapq
import itertools

from ekiden.core.errors import UserError

_START_US = 1_700_000_000_000_000


class ManualClock:
    """A `Clock` that moves only when you call `advance`.

    Use the clock only in the thread of the event loop.
    """

    def __init__(self, *, start_us: int = _START_US) -> None:
        self._now_us = start_us
        self._elapsed_us = 0
        self._sleepers: list[tuple[int, int, asyncio.Future[None]]] = []
        self._order = itertools.count()
        self._watchers: list[tuple[int, asyncio.Future[None]]] = []

    def now_us(self) -> int:
        return self._now_us

    def monotonic(self) -> float:
        return self._elapsed_us / 1e6

    def advance(self, seconds: float) -> None:
        """Let `seconds` pass: move the wall clock and the monotonic clock forward, and wake the
        tasks whose sleep is over."""
        if seconds < 0:
            raise UserError("time does not run backwards; use jump() to set the wall clock back")
        moved_us = round(seconds * 1e6)
        self._now_us += moved_us
        self._elapsed_us += moved_us
        while self._sleepers and self._sleepers[0][0] <= self._elapsed_us:
            _, _, sleeper = heapq.heappop(self._sleepers)
            if not sleeper.done():
                sleeper.set_result(None)

    def jump(self, seconds: float) -> None:
        """Set the wall clock forwards or back, as an operator or NTP does. The monotonic clock does
        not move."""
        self._now_us += round(seconds * 1e6)

    async def sleep(self, seconds: float) -> None:
        """Sleep until `advance` has moved the clock forward by this many seconds."""
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        sleeper: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        due = self._elapsed_us + round(seconds * 1e6)
        heapq.heappush(self._sleepers, (due, next(self._order), sleeper))
        self._notify()
        await sleeper

    async def until_sleeping(self, count: int = 1) -> None:
        """Wait until at least `count` tasks sleep on this clock."""
        if self._asleep() >= count:
            return
        watcher: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._watchers.append((count, watcher))
        await watcher

    def _asleep(self) -> int:
        return sum(not sleeper.done() for _, _, sleeper in self._sleepers)

    def _notify(self) -> None:
        asleep = self._asleep()
        for count, watcher in self._watchers:
            if count <= asleep and not watcher.done():
                watcher.set_result(None)
        self._watchers = [entry for entry in self._watchers if not entry[1].done()]
