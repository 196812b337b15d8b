"""Inserts of many rows with few statements, events as rows, and rows of whole stores."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from itertools import chain
from random import Random
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar, cast

import apsw

from ekiden.core.events import Event, EventType, new_event
from ekiden.core.values import dumps, loads
from ekiden.storage.chain import commit_digest
from ekiden.storage.copying import LAST_TIME_MS, OF_SESSIONS, TABLES, TableName
from ekiden.storage.sqlite.connection import query
from ekiden.storage.values import EXACT_COUNT, json_text

T = TypeVar("T")
Row: TypeAlias = tuple[Any, ...]

_ROWS_AT_ONCE = 128
NO_SESSION = 0
"""The session number of events outside sessions."""
_TYPES: tuple[EventType, ...] = (
    "route", "llm_call", "tool_call", "handoff", "guardrail", "tool_confirmation", "agent_start",
    "agent_complete", "agent_error", "message", "task", "inbox",
)  # fmt: skip
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
    """The inverse of `stored_type`. Raises `IndexError` for an unknown number."""
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
    return new_event(
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


_OPEN = "(state = 'open')"
_ORDER: Final[Mapping[TableName, str]] = {
    "sessions": "num",
    "events": "id",
    "steps": "id",
    "documents": "id",
    "messages": "id",
    "search_spaces": "num",
    "search_entries": "id",
}
_WHERE: Final[Mapping[TableName, str]] = {"events": "session >= 0"}
_PROBES = 200


class SqliteColumn(NamedTuple):
    """How a column is read."""

    stored: str
    """The name of the column in the file."""
    read: str = "{}"
    """The SQL expression of the value; ``{}`` stands for the column."""


def _json(name: str) -> SqliteColumn:
    return SqliteColumn(name, "coalesce({}, '{{}}')")


_OWN: Final[Mapping[TableName, Mapping[str, SqliteColumn]]] = {
    "sessions": {
        "meta": _json("meta"),
        "cursor": _json("cursor"),
        "variables": _json("variables"),
        "ready_us": SqliteColumn("place_us"),
    },
    "events": {"place": SqliteColumn("id")},
    "steps": {},
    "documents": {},
    "messages": {
        "due_ms": SqliteColumn(
            "due_ms",
            read=f"iif({_OPEN} AND (owner IS NULL OR owner LIKE '{OF_SESSIONS}'),"
            f" min(max({{}} + ?1, 0), {LAST_TIME_MS}), 0)",
        ),
        "expires_ms": SqliteColumn(
            "expires_ms", read=f"iif({_OPEN}, min(max({{}} + ?1, 0), {LAST_TIME_MS}), NULL)"
        ),
        "owner": SqliteColumn(
            "owner", read=f"iif({_OPEN} AND owner NOT LIKE '{OF_SESSIONS}', NULL, {{}})"
        ),
    },
    "search_spaces": {},
    "search_entries": {},
}
"""Columns with another name or another form in the file."""


def stored_columns(table: TableName) -> list[str]:
    """The names of the copied columns in the file."""
    own = _OWN[table]
    return [own[name].stored if name in own else name for name in TABLES[table]]


def select_sql(table: TableName) -> str:
    """The statement for the rows of a table; ``?1`` is wall time minus lease clock."""
    columns = (_OWN[table].get(name, SqliteColumn(name)) for name in TABLES[table])
    values = ", ".join(column.read.format(column.stored) for column in columns)
    where = _WHERE.get(table, "1")
    return f"SELECT {values} FROM {table} WHERE {where} ORDER BY {_ORDER[table]}"


def count_sql(table: TableName, *, at_most: int | None = None) -> str:
    """The statement for the number of rows of `select_sql`, counting at most `at_most`."""
    rows = f"FROM {table} WHERE {_WHERE.get(table, '1')}"
    if at_most is None:
        return f"SELECT count(*) {rows}"
    return f"SELECT count(*) FROM (SELECT 1 {rows} LIMIT {at_most:d})"


def number_of(table: TableName) -> str:
    """The column that numbers the rows of a table."""
    return _ORDER[table]


def _read_event(row: Row) -> Row:
    error = None if row[10] is None else loads(row[10])
    return (*row[:3], type_of(row[3]), *row[4:10], error, row[11])


def _read_entry(row: Row) -> Row:
    return (*row[:8], loads(row[8]))


_READ: Final[Mapping[TableName, Callable[[Row], Row]]] = {
    "events": _read_event,
    "search_entries": _read_entry,
}


def from_file(table: TableName, rows: Sequence[Row]) -> Sequence[Row]:
    """Rows of `select_sql` in the form that all back ends share."""
    read = _READ.get(table)
    return rows if read is None else [read(row) for row in rows]


def count_tables(db: apsw.Connection, tables: Iterable[TableName]) -> dict[str, Any]:
    """The number of rows of each table; `estimated` names the tables whose number is estimated."""
    counts: dict[str, Any] = {}
    estimated: list[str] = []
    for table in tables:
        ((counts[table],),) = query(db, count_sql(table, at_most=EXACT_COUNT + 1))
        if counts[table] > EXACT_COUNT:
            counts[table] = _estimate(db, table)
            estimated.append(table)
    return {**counts, "estimated": estimated}


def _estimate(db: apsw.Connection, table: TableName) -> int:
    """The estimated number of rows: the share of existing row numbers in a sample, times the range
    of row numbers. Exact if no rows were deleted."""
    key = number_of(table)
    ((first, last),) = query(
        db, f"SELECT (SELECT min({key}) FROM {table}), (SELECT max({key}) FROM {table})"
    )
    span = last - first + 1
    chance = Random(span)
    probes = [first + int((at + chance.random()) * span / _PROBES) for at in range(_PROBES)]
    ((hits,),) = query(
        db,
        f"SELECT count(*) FROM json_each(?) AS probe CROSS JOIN {table} AS its"
        f" ON its.{key} = probe.value",
        (dumps(probes),),
    )
    return max(int(span * hits // _PROBES), EXACT_COUNT)
