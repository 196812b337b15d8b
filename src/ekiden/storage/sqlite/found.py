"""Finding events over all sessions."""

from __future__ import annotations

from typing import Any

import apsw

from ekiden.core.events import AUDITED, Event
from ekiden.core.jsonio import loads
from ekiden.storage.base import EventFilter, EventPage
from ekiden.storage.sqlite.connection import query
from ekiden.storage.sqlite.event_rows import NO_SESSION, event_of, stored_type
from ekiden.storage.values import check_limit, event_page, parse_event_cursor, parse_feed_cursor

_INDEXED = (
    "(type = 0 OR type = 3 OR type = 4 OR type = 5 OR type = 11 OR type = 'route'"
    " OR type = 'handoff' OR type = 'guardrail' OR type = 'tool_confirmation' OR type = 'inbox')"
)
"""As the index says it, in the same order: that is how SQLite knows that it may use it."""

_COLUMNS = (
    "events.session, coalesce(sessions.id, ''), events.seq, type, at_us, events.agent, step,"
    " duration_us, details, items, error"
)

_THERE = f"(sessions.num IS NOT NULL OR events.session = {NO_SESSION})"


def find_events(
    db: apsw.Connection, where: EventFilter, limit: int, cursor: str | None
) -> EventPage:
    """One page of the events that fit, after the event that the cursor names."""
    check_limit(limit)
    sql, values = page_sql(where, limit, cursor)
    rows = query(db, sql, values)
    page = rows[:limit]
    return event_page(
        [_event(row) for row in page], [row[0] for row in page], more=len(rows) > limit
    )


def page_sql(where: EventFilter, limit: int, cursor: str | None) -> tuple[str, list[str | int]]:
    """The statement for a page and one event more, with its values.

    `LEFT JOIN` keeps the order of the tables: from the index to the names of the sessions.
    """
    conditions = [_THERE]
    values: list[str | int] = []
    if where.types is not None:
        # Both ways in which a type can stand in the table, so that nothing hides in one of them.
        types = sorted({*map(stored_type, where.types), *where.types}, key=str)
        conditions.append(f"type IN ({','.join('?' * len(types))})")
        values += types
    if where.session_id == "":
        conditions.append(f"events.session = {NO_SESSION}")
    elif where.session_id is not None:
        conditions.append("events.session = (SELECT num FROM sessions WHERE id = ?)")
        values.append(where.session_id)
    elif where.types is not None and AUDITED.issuperset(where.types):
        conditions.append(_INDEXED)
    if where.since_us is not None:
        conditions.append("at_us >= ?")
        values.append(where.since_us)
    if where.until_us is not None:
        conditions.append("at_us < ?")
        values.append(where.until_us)
    if cursor is not None:
        sign = "<" if where.newest_first else ">"
        conditions.append(f"(at_us, events.session, events.seq) {sign} (?, ?, ?)")
        values += parse_event_cursor(cursor)
    direction = "DESC" if where.newest_first else "ASC"
    return (
        f"SELECT {_COLUMNS} FROM events LEFT JOIN sessions ON sessions.num = events.session"
        f" WHERE {' AND '.join(conditions)}"
        f" ORDER BY at_us {direction}, events.session {direction}, events.seq {direction}"
        f" LIMIT {limit + 1:d}",
        values,
    )


def read_feed(db: apsw.Connection, after: str | None, limit: int) -> EventPage:
    """The events behind the cursor, which is the `id` of one: writers come one after the other, so
    ids are in the order of commits."""
    check_limit(limit)
    rows = query(
        db,
        f"SELECT {_COLUMNS}, events.id FROM events LEFT JOIN sessions"
        " ON sessions.num = events.session"
        f" WHERE events.id > ? AND {_THERE} ORDER BY events.id LIMIT {limit:d}",
        (0 if after is None else parse_feed_cursor(after),),
    )
    cursors = [str(row[-1]) for row in rows]
    return EventPage(
        events=[_event(row[:-1]) for row in rows],
        cursors=cursors,
        next_cursor=cursors[-1] if cursors else after,
    )


def read_feed_end(db: apsw.Connection) -> str:
    """The cursor after the last event."""
    ((last,),) = query(db, "SELECT coalesce(max(id), 0) FROM events")
    return str(last)


def _event(row: tuple[Any, ...]) -> Event:
    _, session_id, seq, type, at_us, agent, step, duration_us, details, items, error = row
    return event_of(
        session_id,
        seq,
        type,
        at_us,
        agent,
        step,
        duration_us,
        None if details is None else loads(details),
        () if items is None else loads(items),
        None if error is None else loads(error),
    )
