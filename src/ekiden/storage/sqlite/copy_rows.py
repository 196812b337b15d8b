"""Rows of a whole file as `ekiden.storage.copying` has them, and back."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final, NamedTuple

from ekiden.core.jsonio import dumps, loads
from ekiden.storage.copying import LAST_TIME_MS, TABLES, FeedMap, Row, TableName
from ekiden.storage.digests import UNCOVERED
from ekiden.storage.sqlite.event_rows import stored_type, type_of
from ekiden.storage.words import words_of

_OPEN = "(state = 'open')"


class Column(NamedTuple):
    """How a column is read."""

    stored: str
    """Its name in the file."""
    before: str = "NULL"
    """What it is, as SQL, in a file of a format that did not have it."""
    read: str = "{}"
    """The value, as SQL, of the stored one."""


def _json(name: str) -> Column:
    return Column(name, "'{}'", "coalesce({}, '{{}}')")


_OWN: Final[Mapping[TableName, Mapping[str, Column]]] = {
    "sessions": {
        "meta": _json("meta"),
        "cursor": _json("cursor"),
        "variables": _json("variables"),
        "wakes": Column("wakes", "0"),
        "priority": Column("priority", "2"),
        "ready_us": Column("place_us", "updated_us"),
    },
    "events": {"place": Column("id"), "digest": Column("digest", f"'{UNCOVERED}'")},
    "steps": {},
    "documents": {},
    "messages": {
        "due_ms": Column(
            "due_ms",
            read=f"iif({_OPEN} AND owner IS NULL, min(max({{}} + ?1, 0), {LAST_TIME_MS}), 0)",
        ),
        "expires_ms": Column(
            "expires_ms", read=f"iif({_OPEN}, min(max({{}} + ?1, 0), {LAST_TIME_MS}), NULL)"
        ),
        "owner": Column("owner", read=f"iif({_OPEN}, NULL, {{}})"),
        "state": Column("state", "'open'"),
        "created_us": Column("created_us", "0"),
    },
    "search_spaces": {},
    "search_entries": {},
}
"""Columns that are not simply read by their names."""

NOT_COPIED: Final[Mapping[str, Collection[str]]] = {
    "sessions": {"owner", "lease_until"},
    "steps": {"id"},
    "documents": {"id"},
}
"""Columns of the file that mean nothing elsewhere."""
TABLES_NOT_COPIED: Final = frozenset({"machine", "migrations", "search_words"})
"""And tables; those of words are made anew."""

_COMPUTED: Final = "place_us"
"""By the database: it is read only."""
_ORDER: Final[Mapping[TableName, str]] = {
    "sessions": "num",
    "events": "id",
    "steps": "id",
    "documents": "id",
    "messages": "id",
    "search_spaces": "num",
    "search_entries": "id",
}
_WHERE: Final[Mapping[TableName, str]] = {
    "events": "session >= 0",
    "documents": "NOT (collection = 'ekiden.store' AND key IN ('unfinished', 'finished'))",
}


def stored_columns(table: TableName) -> list[str]:
    """The columns of the file that the copied ones are read from."""
    own = _OWN[table]
    return [own[name].stored if name in own else name for name in TABLES[table]]


def select_sql(table: TableName, there: Collection[str]) -> str:
    """The rows of a table that has the columns `there`; ``?1`` is wall time minus lease clock."""
    told = [_expression(_OWN[table].get(name, Column(name)), there) for name in TABLES[table]]
    where = _WHERE.get(table, "1")
    sql = f"SELECT {', '.join(told)} FROM {table} WHERE {where} ORDER BY {_ORDER[table]}"
    return sql if "state" in there else sql.replace(_OPEN, "1")


def count_sql(table: TableName, *, at_most: int | None = None) -> str:
    """How many rows `select_sql` gives; counting ends with `at_most`."""
    rows = f"FROM {table} WHERE {_WHERE.get(table, '1')}"
    if at_most is None:
        return f"SELECT count(*) {rows}"
    return f"SELECT count(*) FROM (SELECT 1 {rows} LIMIT {at_most:d})"


def number_of(table: TableName) -> str:
    """The column that numbers the rows of a table."""
    return _ORDER[table]


def _expression(column: Column, there: Collection[str]) -> str:
    return column.read.format(column.stored) if column.stored in there else column.before


def insert_sql(table: TableName) -> str:
    """A row that `to_file` made."""
    columns = [each for each in stored_columns(table) if each != _COMPUTED]
    marks = ",".join("?" * len(columns))
    return f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({marks})"


def _read_event(row: Row) -> Row:
    error = row[10]
    told = None if error is None else loads(error)
    return (*row[:3], type_of(row[3]), *row[4:10], told, row[11])


def _read_entry(row: Row) -> Row:
    return (*row[:8], loads(row[8]))


_READ: Final[Mapping[TableName, Callable[[Row], Row]]] = {
    "events": _read_event,
    "search_entries": _read_entry,
}


def from_file(table: TableName, rows: Sequence[Row]) -> Sequence[Row]:
    """Rows as `select_sql` gives them in the form that all back ends share."""
    read = _READ.get(table)
    return rows if read is None else [read(row) for row in rows]


class Places(NamedTuple):
    """What rows need that are written."""

    offset_ms: int
    """Wall time minus lease clock."""
    feed: FeedMap
    rank: int
    """Of the first event, from 1 on."""


def to_file(table: TableName, rows: Sequence[Row], places: Places) -> list[Row]:
    """The inverse of `from_file`, with the columns of `insert_sql`."""
    match table:
        case "sessions":
            return [_session(row) for row in rows]
        case "events":
            return [_event(row, places, rank) for rank, row in enumerate(rows, places.rank)]
        case "messages":
            return [_message(row, places.offset_ms) for row in rows]
        case "search_entries":
            return [(*row[:8], dumps(row[8])) for row in rows]
        case _:
            return list(rows)


def _session(row: Row) -> Row:
    objects = [None if text == "{}" else text for text in row[6:9]]
    return (*row[:6], *objects, *row[9:-1])


def _event(row: Row, places: Places, rank: int) -> Row:
    error = row[10]
    return (
        places.feed.place(row[0], rank),
        *row[1:3],
        stored_type(row[3]),
        *row[4:10],
        None if error is None else dumps(error),
        row[11],
    )


def _message(row: Row, offset_ms: int) -> Row:
    told: dict[str, Any] = dict(zip(TABLES["messages"], row, strict=True))
    told["due_ms"] -= offset_ms
    if told["expires_ms"] is not None:
        told["expires_ms"] -= offset_ms
    return tuple(told.values())


def word_rows(rows: Sequence[Row]) -> list[Row]:
    """The words of search entries, as the index of words holds them."""
    return [(row[0], " ".join([f"{row[1]}·{word}" for word in words_of(row[8])])) for row in rows]
