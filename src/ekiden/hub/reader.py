"""The one task of a hub that reads the feed as it grows, for all who are up to date.

The reader gives nobody events: it keeps a window of the last ones. Each stream takes from it what
comes after its own place, or asks the store if its place is not in the window (any more). So a slow
stream holds up nobody and nothing is kept for it; and since a stream's place is that of the last
event it gave, nothing can be left out or given twice, however it got there.

The reader reads only while somebody waits. Those who wait are at the end of the window, or looked
into the store just now and found nothing after their place; if nobody is at the end, the window
begins anew at the place of one of them. Whoever waits is woken when the window changes, and looks
again: a stream that asked the store in vain before the change finds in the window, or in the store,
what the reader saw.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable

from ekiden.core.errors import StoreUnavailable
from ekiden.hub.retry import StoreRetry
from ekiden.hub.subscription import EventFeed, HubEvent
from ekiden.storage.base import EventPage

PAGE = 100
_WINDOW = 500
_GAP_S = 0.02
"""Between two reads, so that each step of a busy store is not read by itself."""
_SOON_S = 0.05
_IDLE_S = 1.0
"""How long a lost hint can delay an event."""


class Window:
    """A stretch of the feed without gaps: at most `size` events, and the place before them.

    A place is the id of an event that was seen, or where a reader began. Places cannot be compared:
    a place is in the window, or one must ask the store what comes after it.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._events: deque[HubEvent] = deque()
        self._first = 0
        """The number of the first event, counted from the beginning of the window's life."""
        self._next: dict[str, int] = {}
        """The number of the event after each place, which is one more than the last at the end."""
        self._start = ""
        self.end: str | None = None
        """The place after the last event; `None` before the window was begun."""

    def begin(self, place: str) -> None:
        """Forget everything, and begin after `place`."""
        self._events.clear()
        self._next = {place: self._first}
        self._start = self.end = place

    def extend(self, events: Iterable[HubEvent]) -> None:
        """Add what comes after the end; the oldest give way."""
        for event in events:
            self._events.append(event)
            self._next[event.id] = self._first + len(self._events)
            self.end = event.id
            if len(self._events) > self._size:
                del self._next[self._start]
                self._start = self._events.popleft().id
                self._first += 1

    def __contains__(self, place: str) -> bool:
        return place in self._next

    def after(self, place: str) -> HubEvent | None:
        """The event after a place in the window; `None` if there is none yet."""
        number = self._next[place] - self._first
        return self._events[number] if number < len(self._events) else None


class LiveReader:
    """Follows the feed of one store."""

    def __init__(self, store: EventFeed, patience: StoreRetry) -> None:
        self._store = store
        self._patience = patience
        self._task: asyncio.Task[None] | None = None
        self._waiting: dict[asyncio.Future[None], str] = {}
        """Who waits, with their places."""
        self._wanted = asyncio.Event()
        self.window = Window(_WINDOW)
        self.generation = 0
        """Raised whenever the window changes."""

    def wait(self, place: str, generation: int) -> asyncio.Future[None]:
        """A future that is done when the window has changed since `generation`.

        It has the error that ended the reader, if one did; then the next call starts it again. Give
        it to `forget` in the end.
        """
        future = asyncio.get_running_loop().create_future()
        if generation != self.generation:
            future.set_result(None)
            return future
        self._waiting[future] = place
        self._wanted.set()
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._follow(), name="ekiden-hub-reader")
        return future

    def forget(self, future: asyncio.Future[None]) -> None:
        """This future has no waiter any more."""
        self._waiting.pop(future, None)

    async def close(self) -> None:
        """Stop reading; those who wait are woken."""
        if self._task is not None and not self._task.done():
            self._task.cancel()
            await asyncio.wait((self._task,))
        self._wake()

    async def _follow(self) -> None:
        try:
            idle_s = _SOON_S
            while True:
                self._wanted.clear()
                if not self._waiting:
                    await self._wanted.wait()
                found = await self._look(idle_s)
                idle_s = _SOON_S if found else min(2 * idle_s, _IDLE_S)
                if found:
                    await asyncio.sleep(_GAP_S)
        except Exception as exc:
            self._wake(exc)

    async def _look(self, idle_s: float) -> bool:
        """Read a page, or if there is nothing wait for a change; whether anything was found."""
        end = self._end()
        # Begun before looking, so that a change between looking and waiting is not missed, whoever
        # else waits for changes of this store.
        hint = asyncio.create_task(self._store.wait_for_change(idle_s))
        try:
            await asyncio.sleep(0)
            page = await self._patience.insist(lambda: read_page(self._store, end), self._pause)
            if page is not None and page.events:
                self.window.extend(events_of(page))
                self._wake()
                return True
            try:
                await hint
            except StoreUnavailable:
                await self._pause(idle_s)
            return False
        finally:
            hint.cancel()
            await asyncio.gather(hint, return_exceptions=True)

    def _end(self) -> str:
        """The end of the window, where a stream waits."""
        end = self.window.end
        places = self._waiting.values()
        if end is not None and (end in places or not places):
            return end
        place = next(iter(places))
        self.window.begin(place)
        self._wake()
        return place

    async def _pause(self, seconds: float) -> bool:
        """Wait; whether anybody still wants something."""
        await asyncio.sleep(seconds)
        return bool(self._waiting)

    def _wake(self, exc: Exception | None = None) -> None:
        self.generation += 1
        waiting, self._waiting = self._waiting, {}
        for future in waiting:
            if future.done():
                continue
            if exc is None:
                future.set_result(None)
            else:
                future.set_exception(exc)


async def read_page(store: EventFeed, place: str) -> EventPage:
    """What comes after `place`."""
    return await store.feed(after=place or None, limit=PAGE)


def events_of(page: EventPage) -> list[HubEvent]:
    """The events of a page, with their ids."""
    return [
        HubEvent(id=cursor, event=event)
        for cursor, event in zip(page.cursors, page.events, strict=True)
    ]
