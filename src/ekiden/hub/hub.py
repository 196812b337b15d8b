"""The hub of a process: one reader of the store's events, any number of subscribers."""

from __future__ import annotations

from typing import Self
from weakref import WeakSet

from ekiden.core.errors import UserError
from ekiden.hub.reader import EVERYTHING, EventFeed, LiveReader, OnOutage, StoreRetry, Subscription
from ekiden.hub.stream import EventStream

_LONGEST_ID = 200


class EventHub:
    """Streams the events of a store to all subscribers.

    One task reads new events for all subscribers. A subscriber that is behind reads pages from the
    store until it has caught up. Every subscriber gets every event of its filter once, in the same
    order. After a restart it continues after its last id. If the store is unreachable, the hub
    calls `on_outage` and tries again. A hub belongs to one event loop::

        async with EventHub(store) as hub:
            async for found in hub.subscribe(after=last_id):
                print(found.to_json())
    """

    def __init__(
        self, store: EventFeed, *, on_outage: OnOutage | None = None, retry_s: float = 0.05
    ) -> None:
        """`retry_s` is the delay before the first retry. The delay doubles with each retry, up to 5
        seconds."""
        self._store = store
        self._patience = StoreRetry(first_s=retry_s, tell=on_outage)
        self._reader = LiveReader(store, self._patience)
        self._streams: WeakSet[EventStream] = WeakSet()
        self._closed = False

    def subscribe(
        self, *, after: str | None = None, where: Subscription = EVERYTHING, follow: bool = True
    ) -> EventStream:
        """A stream of the events that match `where`, after the event with the id `after`.

        ``after=""`` starts with the first event. Without `after` the stream has only new events:
        events after the first `anext`, or after the start of ``async with``. With ``follow=False``
        the stream ends with the last event stored at its start. Raises `UserError` for an invalid
        id when the stream starts.
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
        """End all streams and stop reading; a second call does nothing.

        A closed stream keeps its `position`; use it to continue later.
        """
        self._closed = True
        for stream in tuple(self._streams):
            stream.close()
        await self._reader.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.close()
