"""The documents of the in-memory store, and the events of all its sessions: feed and search."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from heapq import nlargest, nsmallest
from itertools import chain
from operator import itemgetter
from typing import Protocol, TypeAlias

from ekiden.core.errors import StaleDocument
from ekiden.core.events import Event
from ekiden.storage.base import Document, DocumentWrite, EventFilter, EventPage
from ekiden.storage.values import (
    check_limit,
    checked_copy,
    copy_json,
    event_page,
    parse_event_cursor,
    parse_feed_cursor,
)

StagedDocuments: TypeAlias = Mapping[tuple[str, str], Document | None]
"""The documents after a write, by collection and key; `None` marks a deleted document."""


class MemoryDocuments:
    """Versioned documents; bodies are copied in and out."""

    __slots__ = ("_documents", "_keys")

    def __init__(self) -> None:
        self._documents: dict[tuple[str, str], Document] = {}
        self._keys: dict[str, list[str]] = {}
        """The keys of each collection, in order."""

    def get(self, collection: str, key: str) -> Document | None:
        """The document, or `None`."""
        document = self._documents.get((collection, key))
        return None if document is None else _copy(document)

    def page(self, collection: str, *, prefix: str, after: str, limit: int) -> list[Document]:
        """Documents with keys above `after`, ordered by key."""
        keys = self._keys.get(collection, [])
        page: list[Document] = []
        for place in range(max(bisect_left(keys, prefix), bisect_right(keys, after)), len(keys)):
            if len(page) >= limit or not keys[place].startswith(prefix):
                break
            page.append(_copy(self._documents[collection, keys[place]]))
        return page

    def stage(self, writes: Sequence[DocumentWrite], *, now_us: int) -> StagedDocuments:
        """The result of the writes, for `apply`. Raises `StaleDocument` or `UserError`."""
        staged: dict[tuple[str, str], Document | None] = {}
        for write in writes:
            at = (write.collection, write.key)
            current = staged[at] if at in staged else self._documents.get(at)
            found = 0 if current is None else current.version
            if write.expected_version is not None and write.expected_version != found:
                raise StaleDocument(
                    write.collection, write.key, expected=write.expected_version, found=found
                )
            staged[at] = None
            if write.body is not None:
                staged[at] = Document(
                    collection=write.collection,
                    key=write.key,
                    body=checked_copy(write.body, "document {}/{}", write.collection, write.key),
                    version=found + 1,
                    updated_at_us=now_us,
                )
        return staged

    def apply(self, staged: StagedDocuments) -> None:
        """Store the result of `stage`."""
        for at, document in staged.items():
            collection, key = at
            if document is not None:
                if at not in self._documents:
                    insort(self._keys.setdefault(collection, []), key)
                self._documents[at] = document
            elif self._documents.pop(at, None) is not None:
                keys = self._keys[collection]
                del keys[bisect_left(keys, key)]
                if not keys:
                    del self._keys[collection]


def _copy(document: Document) -> Document:
    return replace(document, body=copy_json(document.body))


_FEW = 64


class FeedSession(Protocol):
    """The part of a session that the feed and the search read."""

    id: str
    number: int
    seq: int
    events: list[Event]

    def seal(self) -> None:
        """Compute the deferred audit hashes."""
        ...


class MemoryFeed:
    """The log of all events, and the events outside sessions.

    The feed skips events of deleted sessions, and drops them once they are more than half of the
    log. Positions never change: the n-th event has the cursor n.
    """

    __slots__ = ("_dead", "_dropped", "_log", "free")

    def __init__(self) -> None:
        self.free: list[Event] = []
        """The events outside sessions."""
        self._log: list[Event | None] = []
        self._dropped = 0
        """The number of events that were dropped from the beginning of the log."""
        self._dead = 0
        """The number of events of sessions that were deleted since the log was last cleaned."""

    @property
    def end(self) -> str:
        """The cursor after the last event."""
        return str(self._dropped + len(self._log))

    def extend(self, events: Sequence[Event]) -> None:
        """Add events that were stored in a session."""
        self._log.extend(events)

    def add_free(self, events: Sequence[Event]) -> None:
        """Store events outside sessions, with their numbers."""
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

    def forget(self, deleted: FeedSession, sessions: Mapping[str, FeedSession]) -> None:
        """Note that a session was deleted; `sessions` are the others."""
        self._dead += deleted.seq
        if self._dead <= _FEW + len(self._log) // 2:
            return
        self._dead = 0
        kept = [each if each and _is_stored(each, sessions) else None for each in self._log]
        first = next((place for place, each in enumerate(kept) if each), len(kept))
        self._dropped += first
        self._log = kept[first:]

    def page(self, sessions: Mapping[str, FeedSession], after: str | None, limit: int) -> EventPage:
        """The events after the cursor."""
        check_limit(limit)
        place = 0 if after is None else parse_feed_cursor(after)
        events: list[Event] = []
        cursors: list[str] = []
        for number in range(max(place - self._dropped, 0), len(self._log)):
            event = self._log[number]
            if event is not None and _is_stored(event, sessions):
                if event.session_id:
                    sessions[event.session_id].seal()
                events.append(event)
                cursors.append(str(self._dropped + number + 1))
                if len(events) == limit:
                    break
        return EventPage(
            events=events, cursors=cursors, next_cursor=cursors[-1] if cursors else after
        )


def _is_stored(event: Event, sessions: Mapping[str, FeedSession]) -> bool:
    """Whether the event's session still exists: another one may have the same id by now."""
    if not event.session_id:
        return True
    session = sessions.get(event.session_id)
    return (
        session is not None
        and len(session.events) >= event.seq
        and session.events[event.seq - 1] is event
    )


_Place: TypeAlias = tuple[int, int, int]


def find_events(
    sessions: Iterable[FeedSession],
    free: Sequence[Event],
    where: EventFilter,
    limit: int,
    cursor: str | None,
) -> EventPage:
    """One page of the matching events, of these sessions and outside sessions.

    Reads all events: an index would make every commit slower.
    """
    check_limit(limit)
    after = None if cursor is None else parse_event_cursor(cursor)
    sessions = list(sessions)
    for each in sessions:
        each.seal()
    pick = nlargest if where.newest_first else nsmallest
    journals = chain([("", 0, free)], ((each.id, each.number, each.events) for each in sessions))
    found = pick(limit + 1, _matching(journals, where, after), key=itemgetter(0))
    page = found[:limit]
    return event_page(
        [event for _, event in page],
        [session for (_, session, _), _ in page],
        more=len(found) > limit,
    )


def _matching(
    journals: Iterable[tuple[str, int, Sequence[Event]]], where: EventFilter, after: _Place | None
) -> Iterator[tuple[_Place, Event]]:
    types = None if where.types is None else frozenset(where.types)
    for session_id, session, events in journals:
        if where.session_id is not None and session_id != where.session_id:
            continue
        for event in events:
            place = (event.at_us, session, event.seq)
            if (
                (types is None or event.type in types)
                and (where.since_us is None or event.at_us >= where.since_us)
                and (where.until_us is None or event.at_us < where.until_us)
                and (after is None or (place < after if where.newest_first else place > after))
            ):
                yield place, event
