"""The hint inside one process that something in a store changed."""

from __future__ import annotations

import asyncio
from contextvars import Context
from weakref import WeakKeyDictionary

_ECHO_S = 0.03
LAPSE_S = 0.5
"""How often stores that cannot tell when a lease runs out are to be looked at for one that did."""
DEAD_CHECK_S = 1.0
"""How often a process that finds nothing to claim looks for sessions of dead owners."""
MOST_CHECKED = 10_000
"""How many ready sessions are looked at for dead owners, beginning with the first in the line."""


class ChangeSignal:
    """Wakes tasks that wait in `LeaseStore.wait_for_change`.

    A change between two waits of one task ends the second wait at once, so that its loop "look,
    find nothing, wait" misses nothing. A task that waits only once could look just before a change
    and begin to wait just after it; for such tasks each change is repeated a little later. Before
    the first wait a change costs nothing, and the first wait returns at once if anything changed.
    All calls come from the event loop's thread.
    """

    __slots__ = ("_count", "_echo", "_echoes", "_seen", "_seen_by", "_waiters")

    def __init__(self, *, echoes: bool = True) -> None:
        """Without `echoes`, for one task that waits again and again, a change is not repeated."""
        self._echoes = echoes
        self._count = 0
        self._seen = 0
        """By anybody."""
        self._seen_by: WeakKeyDictionary[asyncio.Task[object], int] | None = None
        """`None` before the first wait."""
        self._waiters: set[asyncio.Future[None]] | None = None
        self._echo: asyncio.AbstractEventLoop | None = None
        """The loop in which a change is to be told once more."""

    @property
    def waited_for(self) -> bool:
        """Whether a task waits now."""
        return bool(self._waiters)

    def notify(self) -> None:
        """Something changed."""
        self._count += 1
        if self._seen_by is None:
            return
        if self._waiters:
            self._wake()
        loop = asyncio.get_running_loop()
        if self._echoes and self._echo is not loop:
            self._repeat_in(loop)

    async def wait(self, timeout_s: float) -> None:
        """Return after the next `notify`, or after the time-out."""
        if self._seen_by is None or self._waiters is None:
            self._seen_by, self._waiters = WeakKeyDictionary(), set()
        task = asyncio.current_task()
        seen = self._seen if task is None else self._seen_by.get(task, self._seen)
        if self._count == seen:
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.add(waiter)
            try:
                await asyncio.wait((waiter,), timeout=max(timeout_s, 0))
            finally:
                self._waiters.discard(waiter)
        self._seen = self._count
        if task is not None:
            self._seen_by[task] = self._count

    def _repeat_in(self, loop: asyncio.AbstractEventLoop) -> None:
        self._echo = loop
        loop.call_later(_ECHO_S, self._tell_again, loop, self._count, context=Context())

    def _tell_again(self, loop: asyncio.AbstractEventLoop, count: int) -> None:
        self._echo = None
        self._wake()
        if count != self._count:  # What changed meanwhile is to be repeated, too.
            self._repeat_in(loop)

    def _wake(self) -> None:
        waiters = self._waiters or set()
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)
        waiters.clear()
