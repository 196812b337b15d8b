"""The hint inside one process that something in a store changed."""

from __future__ import annotations

import asyncio


class ChangeSignal:
    """Wakes those who wait in `LeaseStore.wait_for_change`.

    A change between two waits ends the second one at once, so that the loop "look, find nothing,
    wait" of one taker misses nothing. All calls come from the event loop's thread.
    """

    __slots__ = ("_count", "_seen", "_waiters")

    def __init__(self) -> None:
        self._count = 0
        self._seen = 0
        self._waiters: set[asyncio.Future[None]] = set()

    @property
    def waited_for(self) -> bool:
        """Whether somebody waits now."""
        return bool(self._waiters)

    def notify(self) -> None:
        """Something changed."""
        self._count += 1
        if self._waiters:
            for waiter in self._waiters:
                if not waiter.done():
                    waiter.set_result(None)
            self._waiters.clear()

    async def wait(self, timeout_s: float) -> None:
        """Return after the next `notify`, or after the time-out."""
        if self._count == self._seen:
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.add(waiter)
            try:
                await asyncio.wait((waiter,), timeout=max(timeout_s, 0))
            finally:
                self._waiters.discard(waiter)
        self._seen = self._count
