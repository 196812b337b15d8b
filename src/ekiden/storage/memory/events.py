"""Finding events of all sessions in the in-memory store."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from heapq import nlargest, nsmallest
from itertools import chain
from operator import itemgetter
from typing import TypeAlias

from ekiden.core.events import Event
from ekiden.storage.base import EventFilter, EventPage
from ekiden.storage.memory.sessions import MemorySession
from ekiden.storage.values import check_limit, event_page, parse_event_cursor

_Place: TypeAlias = tuple[int, int, int]


def find_events(
    sessions: Iterable[MemorySession],
    free: Sequence[Event],
    where: EventFilter,
    limit: int,
    cursor: str | None,
) -> EventPage:
    """One page of the events that fit, of these sessions and of none; looks at all of them, so
    that a commit pays nothing."""
    check_limit(limit)
    after = None if cursor is None else parse_event_cursor(cursor)
    sessions = list(sessions)
    for each in sessions:
        each.seal()
    pick = nlargest if where.newest_first else nsmallest
    journals = chain([("", 0, free)], ((each.id, each.number, each.events) for each in sessions))
    found = pick(limit + 1, _fitting(journals, where, after), key=itemgetter(0))
    page = found[:limit]
    return event_page(
        [event for _, event in page],
        [session for (_, session, _), _ in page],
        more=len(found) > limit,
    )


def _fitting(
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
