"""Wake-ups within one process after changes in a store, and the intervals of idle workers."""

from __future__ import annotations

import asyncio
from contextvars import Context
from weakref import WeakKeyDictionary

_ECHO_S = 0.03
LAPSE_S = 0.5
"""How often a worker looks for expired leases in a store that does not know when the next one
expires."""
DEAD_CHECK_S = 1.0
"""How often a process that finds nothing to claim looks for sessions of dead owners."""
MOST_CHECKED = 10_000
"""How many ready sessions, from the front of the queue, are checked for dead owners."""


class ChangeSignal:
    """Wakes tasks that wait in `LeaseStore.wait_for_change`.

    A change between two waits of one task ends the second wait at once, so that its loop "read,
    find nothing, wait" misses nothing. A task that waits only once could read just before a change
    and begin to wait just after it; for such tasks each change is repeated a little later. Before
    the first wait a change costs nothing, and the first wait returns at once if anything changed.
    All calls come from the event loop's thread.
    """

    __slots__ = ("_count", "_echo_loop", "_echoes", "_seen", "_seen_by_task", "_waiters")

    def __init__(self, *, echoes: bool = True) -> None:
        """Without `echoes`, for a single task that waits in a loop, a change is not repeated."""
        self._echoes = echoes
        self._count = 0
        self._seen = 0
        """The count at the end of the last wait of any task."""
        self._seen_by_task: WeakKeyDictionary[asyncio.Task[object], int] | None = None
        """The count at the end of the last wait of each task; `None` before the first wait."""
        self._waiters: set[asyncio.Future[None]] | None = None
        self._echo_loop: asyncio.AbstractEventLoop | None = None
        """The event loop in which a repetition is scheduled."""

    @property
    def has_waiters(self) -> bool:
        """Whether a task waits now."""
        return bool(self._waiters)

    def notify(self) -> None:
        """Wake the waiting tasks: something changed."""
        self._count += 1
        if self._seen_by_task is None:
            return
        if self._waiters:
            self._wake()
        loop = asyncio.get_running_loop()
        if self._echoes and self._echo_loop is not loop:
            self._repeat_in(loop)

    async def wait(self, timeout_s: float) -> None:
        """Return after the next `notify`, or after the time-out."""
        if self._seen_by_task is None or self._waiters is None:
            self._seen_by_task, self._waiters = WeakKeyDictionary(), set()
        task = asyncio.current_task()
        seen = self._seen if task is None else self._seen_by_task.get(task, self._seen)
        if self._count == seen:
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.add(waiter)
            try:
                await asyncio.wait((waiter,), timeout=max(timeout_s, 0))
            finally:
                self._waiters.discard(waiter)
        self._seen = self._count
        if task is not None:
            self._seen_by_task[task] = self._count

    def _repeat_in(self, loop: asyncio.AbstractEventLoop) -> None:
        self._echo_loop = loop
        # An empty context: the timer must not keep the caller's context variables alive.
        loop.call_later(_ECHO_S, self._repeat, loop, self._count, context=Context())

    def _repeat(self, loop: asyncio.AbstractEventLoop, count: int) -> None:
        self._echo_loop = None
        self._wake()
        if count != self._count:  # Changes since then need a repetition of their own.
            self._repeat_in(loop)

    def _wake(self) -> None:
        waiters = self._waiters or set()
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)
        waiters.clear()
