"""The event hub of a process, and the live events of single sessions.

`EventHub` passes every event to every subscriber, and the subscriber filters the events. With a
thousand subscribers that each follow one session, nearly all of that work would be wasted.
`SessionTails` passes events only to the followers of their session.

The position of a follower is the number of its last event, and events are numbered without gaps.
Before an event that arrives too early, the missing events are read from the store. Known events are
skipped. So no event is left out or returned twice. Events may come from a run in this process or
from the store's feed, and may get lost on the way.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol, Self, TypeAlias
from weakref import WeakSet

from ekiden.core.conversation.model import ModelDelta
from ekiden.core.errors import UserError
from ekiden.core.events import Event
from ekiden.hub.reader import (
    EVERYTHING,
    EventFeed,
    EventStream,
    LiveReader,
    OnOutage,
    StoreRetry,
    Subscription,
)

_LONGEST_ID = 200


class EventHub:
    """Streams the events of a store to all subscribers.

    One task reads new events for all subscribers. A slow subscriber reads pages from the store
    until it has caught up. Every subscriber gets each event that matches its filter exactly once.
    The order of the events is the same for all subscribers. After a restart, a subscriber can
    continue after the id of its last event. If the store is unreachable, the hub calls `on_outage`
    and tries again. A hub belongs to one event loop::

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

        With ``after=""`` the stream begins with the first stored event. Without `after`, the stream
        has only events that are stored after the stream starts. The stream starts at the first
        `anext`, or with ``async with``. With ``follow=False`` the stream has only events that are
        stored before it starts, and then ends. If `after` is not a valid id, `UserError` is raised
        when the stream starts.
        """
        if self._closed:
            raise UserError("the event hub is closed: create a new one")
        if after is not None and (not isinstance(after, str) or len(after) > _LONGEST_ID):
            raise UserError(f"{after!r:.40} is not the id of an event: give the `id` of one")
        stream = EventStream(
            self._store, self._reader, self._patience, after=after, where=where, follow=follow
        )
        self._streams.add(stream)
        return stream

    async def close(self) -> None:
        """End all streams and stop reading. A second call does nothing.

        A closed stream keeps its `position`. To continue later, pass this position to `subscribe`
        as `after`.
        """
        self._closed = True
        for stream in tuple(self._streams):
            stream.close()
        await self._reader.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.close()


Shown: TypeAlias = Event | ModelDelta

_MOST_WAITING = 512
_PAGE = 200


class EventSource(Protocol):
    """The part of a `Store` that a follower needs."""

    async def events(
        self, session_id: str, *, after: int = 0, limit: int | None = None
    ) -> Sequence[Event]:
        """Like `Journal.events`."""
        ...


class Tail:
    """The events of one session: stored events after a given number, followed by live events and
    deltas (parts of an answer that a model is still writing).

    Only one task may iterate over a `Tail`. If you cancel `anext`, no event is lost::

        async with tails.follow("customer-42", after=3) as tail:
            async for shown in tail:
                ...
    """

    def __init__(
        self, tails: SessionTails, session_id: str, after: int, *, is_behind: bool = True
    ) -> None:
        self._tails = tails
        self.session_id = session_id
        self.after = after
        """The number of the last returned event."""
        self._ready: deque[Shown] = deque()
        self._is_behind = is_behind
        """Whether the store must be read next."""
        self._is_reading = False
        self._waiting: asyncio.Future[None] | None = None
        self._closed = False

    async def __aenter__(self) -> Self:
        await self._tails.listen(self)
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        self.close()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Shown:
        """Wait for the next event or delta. Ends when the stream is closed."""
        while not self._closed:
            shown = self._take()
            if shown is not None:
                return shown
            if self._is_behind:
                self._is_behind = False
                await self._read()
            else:
                await self._wait()
        raise StopAsyncIteration

    async def soon(self, quiet_s: float) -> Shown | None:
        """Return the next event or delta. Returns `None` if nothing arrives within `quiet_s`
        seconds, or if the stream is closed."""
        try:
            async with asyncio.timeout(quiet_s):
                return await anext(self, None)
        except TimeoutError:
            return None

    def received(self) -> Iterator[Shown]:
        """The next events and deltas that are in memory already. Ends at a gap."""
        while (shown := self._take()) is not None:
            yield shown

    @property
    def is_closed(self) -> bool:
        """Whether the stream is closed."""
        return self._closed

    def begin_after(self, number: int) -> None:
        """Drop received events and deltas that do not belong to the run that starts after event
        `number`."""
        self.after = number
        self._is_behind = False  # A gap will be noticed.
        while self._ready:
            shown = self._ready[0]
            if isinstance(shown, Event) and shown.seq > number:
                return
            self._ready.popleft()

    def offer(self, shown: Shown) -> None:
        """Add an event or a delta of the session.

        Deltas that arrive while the stream reads from the store are dropped, because their order
        would be wrong.
        """
        if len(self._ready) >= _MOST_WAITING:
            # The reader is slow: it reads these events from the store instead, and misses only
            # deltas.
            self._ready.clear()
            self._is_behind = True
        elif isinstance(shown, Event) or not (self._is_behind or self._is_reading):
            self._ready.append(shown)
        self.wake()

    def catch_up(self) -> None:
        """Read new events from the store."""
        self._is_behind = True
        self.wake()

    def wake(self) -> None:
        """Wake the waiting reader."""
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    def close(self) -> None:
        """Close the stream, even while a task waits for its next event."""
        self._closed = True
        self._tails.leave(self)
        self.wake()

    def _take(self) -> Shown | None:
        """The next event or delta in memory; `None` if there is none, or if events before it must
        be read from the store first."""
        while self._ready:
            shown = self._ready.popleft()
            if isinstance(shown, ModelDelta):
                return shown
            if shown.seq == self.after + 1:
                self.after = shown.seq
                return shown
            if shown.seq > self.after:
                # This event is dropped, because it will be read again together with the missing
                # ones.
                self._is_behind = True
                return None
        return None

    async def _read(self) -> None:
        self._is_reading = True
        try:
            page = await self._tails.store.events(self.session_id, after=self.after, limit=_PAGE)
        except BaseException:
            self._is_behind = True
            raise
        finally:
            self._is_reading = False
        self._ready.extendleft(reversed(page))
        if len(page) == _PAGE:
            self._is_behind = True

    async def _wait(self) -> None:
        self._waiting = asyncio.get_running_loop().create_future()
        try:
            await self._waiting
        finally:
            self._waiting = None


class SessionTails:
    """Streams the events of single sessions of a store to their followers in this process. A
    `SessionTails` object belongs to one event loop."""

    def __init__(self, store: EventSource, hub: EventHub) -> None:
        self.store = store
        self._hub = hub
        self._followed: dict[str, WeakSet[Tail]] = {}
        """The streams by session. The references are weak, so that an abandoned stream is
        collected."""
        self._shown: dict[str, int] = {}
        """The sessions with runs in this process, and the number of runs."""
        self._reader: asyncio.Task[None] | None = None
        self._has_begun = asyncio.Event()
        self._closed = False

    def follow(self, session_id: str, *, after: int = 0) -> Tail:
        """Return a stream of the session's events after number `after`. The stream starts with
        ``async with``."""
        return Tail(self, session_id, after)

    async def prepared(self, session_id: str) -> Tail:
        """Return a started stream for a run that is about to start, so that no delta is missed.

        Call `begin_after` with the number of the last event before the run.
        """
        tail = Tail(self, session_id, 0, is_behind=False)
        await self.listen(tail)
        return tail

    @contextmanager
    def showing(self, session_id: str) -> Iterator[None]:
        """Mark the session as running in this process until the end of the block.

        Meanwhile this process passes the events to the followers. It ignores events of this session
        from the store, because they could overtake the deltas.
        """
        self._shown[session_id] = self._shown.get(session_id, 0) + 1
        try:
            yield
        finally:
            left = self._shown.pop(session_id) - 1
            if left:
                self._shown[session_id] = left
            for tail in self._followed.get(session_id, ()):
                tail.catch_up()

    def wants(self, session_id: str) -> bool:
        """Whether the session has followers."""
        return bool(self._followed.get(session_id))

    def show(self, session_id: str, shown: Shown) -> None:
        """Pass an event or a delta of a session that runs in this process to its followers."""
        tails = self._followed.get(session_id)
        if tails is None:
            return
        for tail in tails:
            tail.offer(shown)
        if not tails:
            del self._followed[session_id]

    @property
    def is_closed(self) -> bool:
        """Whether `close` was called."""
        return self._closed

    def end(self, session_id: str) -> None:
        """End the streams of the session, because this process no longer works on it."""
        for tail in tuple(self._followed.get(session_id, ())):
            tail.close()

    async def listen(self, tail: Tail) -> None:
        """Start passing events to `tail`. From this call on, the stream misses no event."""
        if self._closed:
            tail.close()
            return
        self._followed.setdefault(tail.session_id, WeakSet()).add(tail)
        if self._reader is None or self._reader.done():
            self._has_begun.clear()
            self._reader = asyncio.create_task(self._read(), name="ekiden-session-tails")
        try:
            await self._has_begun.wait()
        except BaseException:
            tail.close()
            raise

    def leave(self, tail: Tail) -> None:
        """Remove the closed stream `tail`."""
        tails = self._followed.get(tail.session_id)
        if tails is not None:
            tails.discard(tail)
            if not tails:
                del self._followed[tail.session_id]

    async def close(self) -> None:
        """Close all streams. A second call does nothing."""
        self._closed = True
        for tail in [tail for tails in self._followed.values() for tail in tails]:
            tail.close()
        if self._reader is not None:
            self._reader.cancel()
            await asyncio.gather(self._reader, return_exceptions=True)
        # Also after a failure, so that no follower waits for ever.
        self._has_begun.set()

    async def _read(self) -> None:
        """Pass on the feed's events while there are followers."""
        try:
            async with self._hub.subscribe() as stream:
                self._has_begun.set()
                async for found in stream:
                    if not self._followed:
                        return
                    if found.event.session_id not in self._shown:
                        self.show(found.event.session_id, found.event)
        finally:
            self._has_begun.set()
            for tails in self._followed.values():
                for tail in tails:
                    tail.catch_up()
