"""Rows of SQLite tables in the form of `ekiden.storage.copying`, and their counts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from random import Random
from typing import Any, Final, NamedTuple

import apsw

from ekiden.core.values import dumps, loads
from ekiden.storage.copying import LAST_TIME_MS, OF_SESSIONS, TABLES, Row, TableName
from ekiden.storage.sqlite.connection import query
from ekiden.storage.sqlite.rows import type_of
from ekiden.storage.values import EXACT_COUNT

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
