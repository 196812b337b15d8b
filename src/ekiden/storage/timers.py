"""Timers, as documents ordered by due time; and wake-ups within one process after changes.

A timer is a hint: the process that finds a due timer reads the timer's subject, does the work and
removes the timer. Times are those of the store's clock.
"""

from __future__ import annotations

import asyncio
from contextvars import Context
from typing import Any
from weakref import WeakKeyDictionary

from ekiden.core.dataclass import dataclass
from ekiden.core.errors import StaleDocument
from ekiden.storage.base import Document, DocumentStore, DocumentWrite

TIMERS = "timers"
_DIGITS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Timer:
    """Work that is due at a time."""

    due_us: int
    kind: str
    """The kind of work: ``inbox``, ``query`` …"""
    id: str
    """The id of the subject, e.g. of an inbox item."""
    version: int = 0
    """The version of the document."""

    @property
    def key(self) -> str:
        """The key of the document."""
        return f"{max(self.due_us, 0):0{_DIGITS}d}/{self.kind}/{self.id}"


def timer_write(timer: Timer, body: Any = True) -> DocumentWrite:
    """The write that sets the timer; timers with the same time, kind and id are one timer."""
    return DocumentWrite(collection=TIMERS, key=timer.key, body=body)


def timer_removal(timer: Timer) -> DocumentWrite:
    """The write that removes the timer, if it exists."""
    return DocumentWrite(collection=TIMERS, key=timer.key, body=None)


async def due_timers(
    store: DocumentStore,
    *,
    now_us: int,
    limit: int = 100,
    kind: str | None = None,
    after: str = "",
) -> list[Timer]:
    """Due timers with keys above `after`, oldest first; with `kind` only those of this kind."""
    found: list[Timer] = []
    while True:
        documents = await store.list_documents(TIMERS, after=after, limit=limit)
        timers = [timer for timer in map(_timer, documents) if timer is not None]
        due = [timer for timer in timers if timer.due_us <= now_us]
        found += [timer for timer in due if kind in (None, timer.kind)]
        if len(found) >= limit or len(documents) < limit or len(due) < len(timers):
            return found[:limit]
        after = documents[-1].key


async def next_due_us(store: DocumentStore) -> int | None:
    """The due time of the next timer; `None` without timers."""
    after = ""
    while documents := await store.list_documents(TIMERS, after=after, limit=1):
        timer = _timer(documents[0])
        if timer is not None:
            return timer.due_us
        after = documents[0].key
    return None


async def remove_timer(store: DocumentStore, timer: Timer) -> bool:
    """Remove the timer. Returns true for only one of several processes that found it."""
    removal = DocumentWrite(
        collection=TIMERS, key=timer.key, body=None, expected_version=timer.version
    )
    try:
        await store.write_documents([removal])
    except StaleDocument:
        return False
    return True


def _timer(document: Document) -> Timer | None:
    """The timer of a document; `None` if its key is not that of a timer."""
    due, _, rest = document.key.partition("/")
    kind, _, about = rest.partition("/")
    if not (due.isascii() and due.isdecimal() and about):
        return None
    return Timer(due_us=int(due), kind=kind, id=about, version=document.version)


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
