"""Inserts of many rows with few statements, and events as rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from itertools import chain
from typing import Any, TypeAlias, TypeVar, cast

import apsw

from ekiden.core.events import Event, EventType
from ekiden.storage.chain import commit_digest
from ekiden.storage.values import json_text

T = TypeVar("T")
Row: TypeAlias = tuple[Any, ...]

_ROWS_AT_ONCE = 128
NO_SESSION = 0
"""The session number of events outside sessions."""
_TYPES: tuple[EventType, ...] = (
    "route",
    "llm_call",
    "tool_call",
    "handoff",
    "guardrail",
    "tool_confirmation",
    "agent_start",
    "agent_complete",
    "agent_error",
    "message",
    "task",
    "inbox",
)
"""Types are stored as their positions here, which are part of the format; unknown types by name."""
_CODES: Mapping[str, int] = {name: code for code, name in enumerate(_TYPES)}
_INSERT_EVENTS = (
    "INSERT INTO events"
    " (session, seq, type, at_us, agent, step, duration_us, details, items, error, digest)"
)


def chunks(rows: Sequence[T]) -> Sequence[Sequence[T]]:
    """The rows in parts, one for each statement."""
    if len(rows) <= _ROWS_AT_ONCE:
        return (rows,) if rows else ()
    return [rows[at : at + _ROWS_AT_ONCE] for at in range(0, len(rows), _ROWS_AT_ONCE)]


def padded(count: int) -> int:
    """The next power of two: so there are few different statements, and all stay prepared."""
    return 1 << (count - 1).bit_length()


@cache
def values_sql(size: int, width: int) -> str:
    """`VALUES` with `size` rows of `width` columns."""
    return "VALUES " + ",".join([f"({','.join('?' * width)})"] * size)


def flat(rows: Sequence[Row], size: int) -> list[Any]:
    """The values of the rows, padded with rows of nulls."""
    values = list(chain.from_iterable(rows))
    if size > len(rows):
        values += [None] * ((size - len(rows)) * len(rows[0]))
    return values


def insert_rows(db: apsw.Connection, insert: str, rows: Sequence[Row]) -> None:
    """Insert the rows with few statements; rows of nulls are padding and are not inserted."""
    for chunk in chunks(rows):
        size = padded(len(chunk))
        db.execute(_insert_sql(insert, size, len(chunk[0])), flat(chunk, size))


@cache
def _insert_sql(insert: str, size: int, width: int) -> str:
    return f"{insert} SELECT * FROM ({values_sql(size, width)}) WHERE column1 IS NOT NULL"


def stored_type(type: EventType) -> int | str:
    """An event type as it is stored."""
    return _CODES.get(type, type)


def type_of(stored: int | str) -> EventType:
    """The inverse of `stored_type`; `IndexError` for an unknown number."""
    if not isinstance(stored, int):
        return cast("EventType", stored)
    if stored < 0:
        raise IndexError(f"no type of event has the number {stored}")
    return _TYPES[stored]


def event_rows(num: int, session_id: str, events: Sequence[Event]) -> list[Row]:
    """The rows of one commit's events, in the session with this number."""
    rows: list[Row] = [_event_row(num, event) for event in events]
    if rows:
        digest = commit_digest(
            session_id, events, [row[7] for row in rows], [row[8] for row in rows]
        )
        rows[-1] = (*rows[-1][:-1], digest)
    return rows


def _event_row(num: int, event: Event) -> Row:
    details, items, error = event.details, event.items, event.error
    return (
        num,
        event.seq,
        _CODES.get(event.type, event.type),
        event.at_us,
        event.agent,
        event.step,
        event.duration_us,
        None if details is None else json_text(details, "`details` of {!r}", event),
        json_text(items, "`items` of {!r}", event) if event.speaks else None,
        None if error is None else json_text(error, "`error` of {!r}", event),
        None,
    )


def insert_events(db: apsw.Connection, rows: Sequence[Row]) -> None:
    """Insert rows of events with few statements, in this order."""
    insert_rows(db, _INSERT_EVENTS, rows)


def event_of(
    session_id: str,
    seq: int,
    type: int | str,
    at_us: int,
    agent: str | None,
    step: str | None,
    duration_us: int | None,
    details: Any,
    items: Sequence[Any],
    error: str | None,
) -> Event:
    """The event of a row whose JSON is already parsed."""
    return Event(
        session_id=session_id,
        seq=seq,
        type=type_of(type),
        at_us=at_us,
        agent=agent,
        step=step,
        duration_us=duration_us,
        details=details,
        items=tuple(items),
        error=error,
    )
