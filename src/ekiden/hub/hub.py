"""The event hub of a process, which reads the store's events once for all subscribers."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Self
from weakref import WeakSet

from ekiden.core.errors import UserError
from ekiden.hub.reader import (
    EVERYTHING,
    EventFeed,
    HubEvent,
    LiveReader,
    OnOutage,
    StoreRetry,
    Subscription,
    events_of,
    read_page,
)

_LONGEST_ID = 200


class EventHub:
    """Streams the events of a store to all subscribers.

    One task reads new events for all subscribers. A slow subscriber reads pages from the store
    until it has caught up. Every subscriber gets every event that matches its filter exactly once,
    and all get the events in the same order. After a restart, a subscriber can continue after the
    id of its last event. If the store is unreachable, the hub calls `on_outage` and tries again. A
    hub belongs to one event loop::

        async with EventHub(store) as hub:
            async for found in hub.subscribe(after=last_id):
                print(found.to_json())
    """

    def __init__(
        self, store: EventFeed, *, on_outage: OnOutage | None = None, retry_s: float = 0.05
    ) -> None:
        """`retry_s` is the delay before the first retry after a failure of the store. The delay
        doubles with each retry, up to 5 seconds."""
        self._store = store
        self._patience = StoreRetry(first_s=retry_s, tell=on_outage)
        self._reader = LiveReader(store, self._patience)
        self._streams: WeakSet[EventStream] = WeakSet()
        self._closed = False

    def subscribe(
        self, *, after: str | None = None, where: Subscription = EVERYTHING, follow: bool = True
    ) -> EventStream:
        """Return a stream of the events that match `where`, after the event with the id `after`.

        ``after=""`` starts with the first event. Without `after`, the stream has only events that
        are stored after its start. The stream starts at the first `anext`, or with ``async with``.
        With ``follow=False`` the stream ends after the last event that was stored when it started.
        If the id is invalid, `UserError` is raised when the stream starts.
        """
        if self._closed:
            raise UserError("the event hub is closed: make another one")
        if after is not None and (not isinstance(after, str) or len(after) > _LONGEST_ID):
            raise UserError(f"{after!r:.40} is not the id of an event: give the `id` of one")
        stream = EventStream(
            self._store, self._reader, self._patience, after=after, where=where, follow=follow
        )
        self._streams.add(stream)
        return stream

    async def close(self) -> None:
        """End all streams and stop reading. A second call does nothing.

        A closed stream keeps its `position`. To continue later, pass this position as `after`.
        """
        self._closed = True
        for stream in tuple(self._streams):
            stream.close()
        await self._reader.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.close()


class EventStream:
    """The events of a subscription, in one order for all subscribers.

    Only one task at a time may iterate over the stream. If you cancel `anext`, no event is lost:
    the next call continues. `async with` starts the stream at once, and closes it at the end::

        async with hub.subscribe() as stream:
            async for found in stream:
                print(found.id, found.event.type)
    """

    def __init__(
        self,
        store: EventFeed,
        reader: LiveReader,
        patience: StoreRetry,
        *,
        after: str | None,
        where: Subscription,
        follow: bool,
    ) -> None:
        self._store = store
        self._reader = reader
        self._patience = patience
        self._after = after
        self._where = where
        self._follow = follow
        self._place: str | None = None
        """The position after the last event that was returned or skipped; `None` before the
        start."""
        self._end: str | None = None
        """The position at which a stream that does not follow ends."""
        self._page: deque[HubEvent] = deque()
        """Events that were read from the store for this stream only."""
        self._pending: asyncio.Future[None] | None = None
        """The future that the stream waits for; `close` ends the wait."""
        self._taken = False
        self._closed = False

    @property
    def position(self) -> str | None:
        """The id of the last event that was returned or skipped. To continue later, pass this id as
        `after`.

        `None` until the stream knows its start.
        """
        return self._after if self._place is None else self._place

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> HubEvent:
        """Wait for the next event. Raises `UserError` for an invalid id."""
        if self._taken:
            raise UserError(
                "only one task at a time can read a stream of events: subscribe once for each task"
            )
        self._taken = True
        try:
            return await self._next()
        finally:
            self._taken = False

    async def __aenter__(self) -> Self:
        """Start the stream: find the present end of the store's events, or check the id `after`."""
        await self._begin()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        self.close()

    async def aclose(self) -> None:
        """Close the stream like `close`."""
        self.close()

    def close(self) -> None:
        """Close the stream, even while a task waits for its next event."""
        self._closed = True
        if self._pending is not None and not self._pending.done():
            self._pending.set_result(None)

    async def _next(self) -> HubEvent:
        if self._place is None:
            await self._begin()
        while not (self._closed or self._is_over()):
            found = self._take()
            if found is None:
                await self._fetch()
            else:
                self._place = found.id
                if self._where.matches(found.event):
                    return found
        raise StopAsyncIteration

    def _take(self) -> HubEvent | None:
        """The next event in memory, whether it matches the filter or not."""
        if self._page:
            return self._page.popleft()
        window, place = self._reader.window, self._known_place()
        return window.after(place) if self._follow and place in window else None

    async def _fetch(self) -> None:
        """Read or wait until there are events in memory, or the stream is closed."""
        # Read before the store: if the window changes meanwhile, the wait below ends at once.
        generation, place = self._reader.generation, self._known_place()
        if self._follow and place in self._reader.window:
            await self._wait(place, generation)
        elif not await self._read(place):
            if self._follow:
                await self._wait(place, generation)
            else:
                self.close()

    def _is_over(self) -> bool:
        return not self._follow and self._place == self._end

    async def _begin(self) -> None:
        if self._place is not None:
            return
        if self._after is None or not self._follow:
            self._end = await self._patience.insist(self._store.feed_end, self._pause)
        place = self._end if self._after is None else self._after
        if place is None:  # Closed while the store could not be reached.
            return
        if self._after and place not in self._reader.window:
            await self._check(place)
        self._place = place

    async def _check(self, place: str) -> None:
        try:
            await self._read(place)
        except UserError as exc:
            raise UserError(
                f"{place[:40]!r} is not the id of an event of this store: give the `id` of one "
                "that you got, or an empty one to begin with the first event"
            ) from exc

    async def _read(self, place: str) -> bool:
        """Read a page from the store; returns whether there are events."""
        page = await self._patience.insist(lambda: read_page(self._store, place), self._pause)
        if page is not None:
            self._page.extend(events_of(page))
            await asyncio.sleep(0)  # A store in memory never yields to other tasks.
        return bool(self._page)

    async def _wait(self, place: str, generation: int) -> None:
        if self._closed:
            return
        self._pending = future = self._reader.wait(place, generation)
        try:
            await future
        finally:
            self._pending = None
            self._reader.forget(future)

    async def _pause(self, seconds: float) -> bool:
        """Wait for `seconds`, or until the stream is closed; returns whether it is still open."""
        if not self._closed:
            self._pending = asyncio.get_running_loop().create_future()
            try:
                await asyncio.wait((self._pending,), timeout=seconds)
            finally:
                self._pending = None
        return not self._closed

    def _known_place(self) -> str:
        assert self._place is not None
        return self._place
