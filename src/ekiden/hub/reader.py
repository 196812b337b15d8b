"""The live reader of a store's events, which retries while the store is unavailable, and its
streams.

The reader does not pass events to streams. It keeps a window of the last events. Each stream takes
the events after its own position from the window, or reads the store if its position is not in the
window. So a slow stream does not delay other streams and needs no buffer. The position of a stream
is the id of its last event, so no event is left out or returned twice.

The reader reads only while a stream waits. A waiting stream is at the end of the window, or has
just found no event after its position in the store. If no waiting stream is at the end, the window
starts again at the position of one of these streams. When the window changes, waiting streams are
woken and read again. So a stream that read the store before the change finds the new events in the
window or in the store.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol, Self, TypeAlias, TypeVar

from ekiden.core.errors import StoreUnavailable, UserError
from ekiden.core.events import Event, EventType
from ekiden.storage.base import EventPage

T = TypeVar("T")
OnOutage: TypeAlias = Callable[[StoreUnavailable | None], None]
"""A function that is called with the error when an outage begins, and with `None` when the outage
ends."""

_LONGEST_S = 5.0


class StoreRetry:
    """Retries reads of one store. All readers share it, so that an outage is reported once."""

    def __init__(self, *, first_s: float, tell: OnOutage | None) -> None:
        self._first_s = first_s
        self._tell = tell
        self._out = False

    async def insist(
        self, call: Callable[[], Awaitable[T]], pause: Callable[[float], Awaitable[bool]]
    ) -> T | None:
        """Return the result of `call`, which is retried while the store is unavailable.

        Before each retry, `pause` is called with the delay in seconds. If `pause` returns false,
        this method returns `None`. The delay doubles with each retry. Errors other than
        `StoreUnavailable` are raised.
        """
        wait_s = self._first_s
        while True:
            began_out = self._out
            try:
                result = await call()
            except StoreUnavailable as exc:
                self._failed(exc)
            else:
                # A call that began before the outage does not prove that it is over.
                if began_out:
                    self._worked()
                return result
            if not await pause(wait_s):
                return None
            wait_s = min(2 * wait_s, _LONGEST_S)

    def _failed(self, exc: StoreUnavailable) -> None:
        if not self._out:
            self._out = True
            if self._tell is not None:
                self._tell(exc)

    def _worked(self) -> None:
        if self._out:
            self._out = False
            if self._tell is not None:
                self._tell(None)


_PARTIES = ("from", "to", "from_agent", "to_agent")
"""The keys of agents in an event's details."""


class EventFeed(Protocol):
    """The part of a `Store` that the hub needs."""

    async def feed(self, *, after: str | None = None, limit: int = 100) -> EventPage:
        """Like `Journal.feed`."""
        ...

    async def feed_end(self) -> str:
        """Like `Journal.feed_end`."""
        ...

    async def wait_for_change(self, timeout_s: float) -> None:
        """Like `LeaseStore.wait_for_change`."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class HubEvent:
    """An event, with its position among all events of the store."""

    id: str
    """The position of the event. A subscription that gets this id as `after` receives exactly the
    later events. The id is opaque, and valid in every process that uses the store."""
    event: Event

    def to_json(self) -> dict[str, Any]:
        """The event as JSON, with its `id`."""
        return {"id": self.id, **self.event.to_json()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """A filter for events. An event must match all fields that are set; a field of `None` matches
    all events.

    For example::

        Subscription(agents=["billing"], types=["handoff", "agent_error"])
    """

    sessions: Collection[str] | None = None
    """Only events of these sessions, and events outside of sessions that name one of these
    sessions."""
    agents: Collection[str] | None = None
    """Only events of these agents, and handoffs and messages from or to them."""
    types: Collection[EventType] | None = None
    inbox: bool = False
    """Whether to match only new and changed inbox items."""

    def __post_init__(self) -> None:
        for name in ("sessions", "agents", "types"):
            given = getattr(self, name)
            if given is None:
                continue
            if isinstance(given, str | bytes):
                raise UserError(f"`{name}` of a subscription is a list of texts, not {given!r:.40}")
            object.__setattr__(self, name, frozenset(given))

    def matches(self, event: Event) -> bool:
        """Whether the event passes the filter."""
        return (
            (self.types is None or event.type in self.types)
            and (not self.inbox or event.type == "inbox")
            and (self.sessions is None or _session(event) in self.sessions)
            and (self.agents is None or any(name in self.agents for name in _agents(event)))
        )


EVERYTHING = Subscription()


def _session(event: Event) -> str:
    if event.session_id or not event.details:
        return event.session_id
    about = event.details.get("session_id") or event.details.get("task")
    return about if isinstance(about, str) else ""


def _agents(event: Event) -> Iterator[str]:
    if event.agent is not None:
        yield event.agent
    details = event.details or {}
    for party in _PARTIES:
        name = details.get(party)
        if isinstance(name, str):
            yield name


PAGE = 100
_WINDOW = 500
_GAP_S = 0.02
"""The pause between two reads, so that several steps of a busy store are read together."""
_SOON_S = 0.05
_IDLE_S = 1.0
"""The maximum delay of an event after a lost hint of a change."""


class Window:
    """The last events of the feed without gaps, at most `size` events, and the position before
    them.

    A position is the id of an event, or the start of a reader. Positions cannot be compared, so for
    a position that is not in the window, the store must be read.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._events: deque[HubEvent] = deque()
        self._first = 0
        """The number of the first event, counted from the creation of the window."""
        self._next: dict[str, int] = {}
        """The number of the event after each position."""
        self._start = ""
        self.end: str | None = None
        """The position after the last event; `None` before `begin`."""

    def begin(self, place: str) -> None:
        """Remove all events, and start after `place`."""
        self._events.clear()
        self._next = {place: self._first}
        self._start = self.end = place

    def extend(self, events: Iterable[HubEvent]) -> None:
        """Add events at the end, and remove the oldest events."""
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
        """Return the event after a position in the window; `None` at the end of the window."""
        number = self._next[place] - self._first
        return self._events[number] if number < len(self._events) else None


class LiveReader:
    """Follows the feed of one store."""

    def __init__(self, store: EventFeed, patience: StoreRetry) -> None:
        self._store = store
        self._patience = patience
        self._task: asyncio.Task[None] | None = None
        self._waiting: dict[asyncio.Future[None], str] = {}
        """The futures of waiting streams, with their positions."""
        self._wanted = asyncio.Event()
        self.window = Window(_WINDOW)
        self.generation = 0
        """Raised whenever the window changes."""

    def wait(self, place: str, generation: int) -> asyncio.Future[None]:
        """Return a future that is done when the window has changed since `generation`.

        If an error ended the reader, the future has this error, and the next call starts the reader
        again. Pass the future to `forget` at the end.
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
        """Remove a future of `wait`."""
        self._waiting.pop(future, None)

    async def close(self) -> None:
        """Stop reading, and wake the waiting streams."""
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
                found = await self._read(idle_s)
                idle_s = _SOON_S if found else min(2 * idle_s, _IDLE_S)
                if found:
                    await asyncio.sleep(_GAP_S)
        except Exception as exc:
            self._wake(exc)

    async def _read(self, idle_s: float) -> bool:
        """Read a page; without new events, wait for a change. Returns whether there were events."""
        end = self._end()
        # Started before the read, so that a change between read and wait is not missed.
        hint = asyncio.create_task(self._store.wait_for_change(idle_s))
        try:
            # Lets the task of the hint begin.
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
        """The end of the window; the window starts again if no stream waits there."""
        end = self.window.end
        places = self._waiting.values()
        if end is not None and (end in places or not places):
            return end
        place = next(iter(places))
        self.window.begin(place)
        self._wake()
        return place

    async def _pause(self, seconds: float) -> bool:
        """Wait for `seconds`; returns whether a stream still waits."""
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
    """The page of the feed after `place`."""
    return await store.feed(after=place or None, limit=PAGE)


def events_of(page: EventPage) -> list[HubEvent]:
    """The events of a page, with their ids."""
    return [
        HubEvent(id=cursor, event=event)
        for cursor, event in zip(page.cursors, page.events, strict=True)
    ]


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
        self._starting = asyncio.Lock()
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
        # `anext` and `async with` may start one stream at the same time. A second start would find
        # a later end, and skip events, or read the same page twice.
        async with self._starting:
            if self._place is None:
                await self._find_start()

    async def _find_start(self) -> None:
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
            # Not added: a start that was cancelled below reads the same page again.
            self._page = deque(events_of(page))
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
