"""How long a run is worked on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from ekiden.core.roles import Clock


class WorkClock:
    """Counts the seconds of a run, but for those in which it waits for a person."""

    __slots__ = ("_began", "_clock", "_stopped_at", "_turn", "deadline")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._began = clock.monotonic()
        self._stopped_at: float | None = None
        self._turn: asyncio.Lock | None = None
        self.deadline: asyncio.Timeout | None = None
        """What ends the step under way when the run's time is up."""

    def elapsed(self) -> float:
        """Seconds since the beginning, or since the last `lap`."""
        return self._now() - self._began

    def lap(self) -> float:
        """The same, and begin anew."""
        now = self._now()
        spent, self._began = now - self._began, now
        return spent

    @asynccontextmanager
    async def stopped(self) -> AsyncIterator[None]:
        """Wait for a person in here: the clock stands still, and people are asked one by one."""
        if self._turn is None:
            self._turn = asyncio.Lock()
        async with self._turn:
            began = self._stopped_at = self._clock.monotonic()
            left = self._suspend()
            try:
                yield
            finally:
                self._began += self._clock.monotonic() - began
                self._stopped_at = None
                if left is not None:
                    self._resume(left)

    def _now(self) -> float:
        return self._clock.monotonic() if self._stopped_at is None else self._stopped_at

    def _suspend(self) -> float | None:
        deadline = self.deadline
        if deadline is None or deadline.expired():
            return None
        when = deadline.when()
        if when is None:
            return None
        deadline.reschedule(None)
        return when - asyncio.get_running_loop().time()

    def _resume(self, left: float) -> None:
        if self.deadline is not None and not self.deadline.expired():
            self.deadline.reschedule(asyncio.get_running_loop().time() + left)
