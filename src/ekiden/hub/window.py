"""The last events that were read, kept for everybody who is nearly up to date."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from ekiden.hub.subscription import HubEvent


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
