"""All events of the in-memory store in the order in which they were stored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ekiden.core.events import Event
from ekiden.storage.base import EventPage
from ekiden.storage.memory.session import MemorySession
from ekiden.storage.values import check_limit, parse_feed_cursor

_FEW = 64


class MemoryFeed:
    """The log of all events, and those of no session.

    The events of a deleted session are passed over, and let go once they are more than half of
    the log. Places never change: the n-th event has the cursor n.
    """

    __slots__ = ("_dead", "_dropped", "_log", "free")

    def __init__(self) -> None:
        self.free: list[Event] = []
        """Of no session."""
        self._log: list[Event | None] = []
        self._dropped = 0
        """So many events are gone from the beginning of the log."""
        self._dead = 0

    @property
    def end(self) -> str:
        """The cursor after the last event."""
        return str(self._dropped + len(self._log))

    def extend(self, events: Sequence[Event]) -> None:
        """These were stored."""
        self._log.extend(events)

    def add_free(self, events: Sequence[Event]) -> None:
        """Events of no session were stored; they get their numbers."""
        for number, event in enumerate(events, start=len(self.free) + 1):
            numbered = Event(
                session_id="",
                seq=number,
                type=event.type,
                at_us=event.at_us,
                agent=event.agent,
                step=event.step,
                duration_us=event.duration_us,
                details=event.details,
                items=event.items,
                error=event.error,
            )
            self.free.append(numbered)
            self._log.append(numbered)

    def forget(self, deleted: MemorySession, sessions: Mapping[str, MemorySession]) -> None:
        """A session was deleted; `sessions` are the others."""
        self._dead += deleted.seq
        if self._dead <= _FEW + len(self._log) // 2:
            return
        self._dead = 0
        kept = [each if each and _is_stored(each, sessions) else None for each in self._log]
        first = next((place for place, each in enumerate(kept) if each), len(kept))
        self._dropped += first
        self._log = kept[first:]

    def page(
        self, sessions: Mapping[str, MemorySession], after: str | None, limit: int
    ) -> EventPage:
        """The events behind the cursor."""
        check_limit(limit)
        place = 0 if after is None else parse_feed_cursor(after)
        events: list[Event] = []
        cursors: list[str] = []
        for number in range(max(place - self._dropped, 0), len(self._log)):
            event = self._log[number]
            if event is not None and _is_stored(event, sessions):
                events.append(event)
                cursors.append(str(self._dropped + number + 1))
                if len(events) == limit:
                    break
        return EventPage(
            events=events, cursors=cursors, next_cursor=cursors[-1] if cursors else after
        )


def _is_stored(event: Event, sessions: Mapping[str, MemorySession]) -> bool:
    """Whether its session is still the one that it was written in."""
    if not event.session_id:
        return True
    session = sessions.get(event.session_id)
    return (
        session is not None
        and len(session.events) >= event.seq
        and session.events[event.seq - 1] is event
    )
