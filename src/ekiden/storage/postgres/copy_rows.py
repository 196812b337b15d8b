"""Rows of PostgreSQL tables in the form of `ekiden.storage.copying` and back, and their counts."""

from __future__ import annotations

import sys
from array import array
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

from ekiden.core.errors.stored_data import StoreUnfinished
from ekiden.core.values import loads
from ekiden.storage.copying import (
    JSON_COLUMNS,
    LAST_TIME_MS,
    MARK,
    OF_SESSIONS,
    TABLES,
    Row,
    TableName,
)
from ekiden.storage.postgres.rows import from_column_or_null, to_column_or_null
from ekiden.storage.search import to_bytes, words_of
from ekiden.storage.values import EXACT_COUNT

READ = "select body from documents where collection = $1 and key = $2"


async def read_mark(connection: Any, *, hold: bool = False) -> dict[str, Any] | None:
    """The document `MARK` of an unfinished copy, if there is one; with `hold` it is locked until
    the transaction ends."""
    body = await connection.fetchval(f"{READ} for share" if hold else READ, *MARK)
    return None if body is None else loads(body)


async def refuse_unfinished(connection: Any, where: str) -> None:
    """Raise `StoreUnfinished` if the schema is an unfinished copy."""
    mark = await read_mark(connection)
    if mark is not None:
        raise StoreUnfinished(where, source=str(mark["source"]))


_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_LAST_US: Final = LAST_TIME_MS * 1000

_TEXT: Final = frozenset(
    {
        "id", "agent", "outcome", "conclusion", "user_id", "step", "error", "collection", "key",
        "queue", "owner", "dedup_key", "waiter", "session_id", "name", "model", "text",
    }
)  # fmt: skip
"""Columns with text of callers, which is escaped."""
_NUMBERS: Final = frozenset({("messages", "id"), ("search_entries", "id")})
_MICROSECONDS: Final = "(extract(epoch from {}) * 1000000)::bigint"
_MILLISECONDS: Final = "least(floor(extract(epoch from {}) * 1000)::bigint, " + f"{LAST_TIME_MS})"


class PostgresColumn(NamedTuple):
    """How a column is read."""

    stored: str
    """The name of the column in the schema."""
    read: str = "{}"
    """The SQL expression of the value; ``{}`` stands for the column."""


def _time(stored: str) -> PostgresColumn:
    return PostgresColumn(stored, read=_MICROSECONDS)


_OWN: Final[Mapping[TableName, Mapping[str, PostgresColumn]]] = {
    "sessions": {
        "created_us": _time("created_at"),
        "updated_us": _time("updated_at"),
        "ready_us": _time("ready_at"),
    },
    "events": {"place": PostgresColumn("xid")},
    "steps": {},
    "documents": {"updated_us": _time("updated_at")},
    "messages": {
        "due_ms": PostgresColumn(
            "due_at",
            read=f"case when state = 'open' and (owner is null or owner like '{OF_SESSIONS}')"
            f" then {_MILLISECONDS} else 0 end",
        ),
        "expires_ms": PostgresColumn(
            "expires_at",
            read=f"case when state = 'open' and {{}} is not null then {_MILLISECONDS} end",
        ),
        "owner": PostgresColumn(
            "owner",
            read=f"case when state = 'open' and owner not like '{OF_SESSIONS}' then null"
            " else {} end",
        ),
        "created_us": _time("created_at"),
        "settled_us": _time("settled_at"),
    },
    "search_spaces": {},
    "search_entries": {"updated_us": _time("updated_at")},
}
"""Columns with another name or another form in the schema."""

_ORDER: Final[Mapping[TableName, str]] = {
    "sessions": "num",
    "events": "xid, session, seq",
    "steps": "session, key",
    "documents": "collection, key",
    "messages": "id",
    "search_spaces": "num",
    "search_entries": "id",
}
_WHERE: Final[Mapping[TableName, str]] = {
    "documents": "(collection, key) <> ('ekiden.store', 'unfinished')",
}


def stored_columns(table: TableName) -> list[str]:
    """The names of the copied columns in the schema."""
    own = _OWN[table]
    return [own[name].stored if name in own else name for name in TABLES[table]]


def written_columns(table: TableName) -> list[str]:
    """The columns of a row of `to_schema`."""
    columns = stored_columns(table)
    return [*columns, "terms"] if table == "search_entries" else columns


def select_sql(table: TableName) -> str:
    """The statement for the rows of a table."""
    columns = (_OWN[table].get(name, PostgresColumn(name)) for name in TABLES[table])
    values = ", ".join(column.read.replace("{}", column.stored) for column in columns)
    return f"select {values} {_from(table)}"


def sizes_sql(table: TableName) -> str:
    """The statement for the approximate size in bytes of each row of `select_sql`, in order."""
    texts = [name for name in TABLES[table] if name in JSON_COLUMNS or _is_text(table, name)]
    parts = [f"coalesce(octet_length({name}), 0)" for name in texts]
    if table == "search_entries":
        parts.append("coalesce(dims, 0) * 4")
    return f"select {' + '.join(['64', *parts])} {_from(table)}"


def _from(table: TableName) -> str:
    return f"from {table} where {_where(table)} order by {_ORDER[table]}"


def count_sql(table: TableName, *, at_most: int | None = None) -> str:
    """The statement for the number of rows of `select_sql`, counting at most `at_most`."""
    rows = f"from {table} where {_where(table)}"
    if at_most is None:
        return f"select count(*) {rows}"
    return f"select count(*) from (select {rows} limit {at_most:d}) as counted"


def _where(table: TableName) -> str:
    return _WHERE.get(table, "true")


def _is_text(table: TableName, name: str) -> bool:
    return name in _TEXT and (table, name) not in _NUMBERS


def from_schema(table: TableName, records: Sequence[Any]) -> list[Row]:
    """Rows of `select_sql` in the form that all back ends share."""
    columns = list(zip(*records, strict=True))
    for at, name in enumerate(TABLES[table]):
        if _is_text(table, name):
            columns[at] = tuple(map(from_column_or_null, columns[at]))
        elif name == "vector":
            columns[at] = tuple(map(_vector_bytes, columns[at]))
    return list(zip(*columns, strict=True))


def to_schema(table: TableName, rows: Sequence[Row], *, first_place: int) -> list[tuple[Any, ...]]:
    """The inverse of `from_schema`, with the columns `written_columns`. `first_place` is the
    position of the first event in the feed; the others follow."""
    columns = list(zip(*rows, strict=True))
    texts = columns[-1]
    for at, name in enumerate(TABLES[table]):
        convert = _WRITTEN.get(name)
        if table == "events" and name == "place":
            columns[at] = tuple(range(first_place, first_place + len(rows)))
        elif table == "events" and name.endswith("_us"):
            continue
        elif _is_text(table, name):
            columns[at] = tuple(map(to_column_or_null, columns[at]))
        elif convert is not None:
            columns[at] = tuple(map(convert, columns[at]))
    if table == "search_entries":
        spaces = columns[1]
        columns.append(
            tuple(
                [f"{space}·{word}" for word in words_of(text)]
                for space, text in zip(spaces, texts, strict=True)
            )
        )
    return list(zip(*columns, strict=True))


def _from_us(us: int | None) -> datetime | None:
    return None if us is None else _EPOCH + timedelta(microseconds=min(us, _LAST_US))


def _from_ms(ms: int | None) -> datetime | None:
    return None if ms is None else _EPOCH + timedelta(milliseconds=ms)


def _vector_bytes(numbers: Sequence[float] | None) -> bytes | None:
    return None if numbers is None else to_bytes(array("f", numbers))


def _vector_numbers(stored: bytes | None) -> list[float] | None:
    if stored is None:
        return None
    vector = array("f", stored)
    if sys.byteorder != "little":
        vector.byteswap()
    return vector.tolist()


_WRITTEN: Final[Mapping[str, Callable[[Any], Any]]] = {
    "created_us": _from_us,
    "updated_us": _from_us,
    "ready_us": _from_us,
    "settled_us": _from_us,
    "due_ms": _from_ms,
    "expires_ms": _from_ms,
    "vector": _vector_numbers,
}


Fetch = Callable[[str], Awaitable[list[Any]]]
"""A function that returns the rows of a statement."""


async def count_tables(fetch: Fetch, tables: Iterable[TableName]) -> dict[str, Any]:
    """The number of rows of each table; `estimated` names the tables whose number is the planner's
    estimate."""
    names = list(tables)
    if not names:
        return {"estimated": []}
    counted = [f"({count_sql(name, at_most=EXACT_COUNT + 1)}) as {name}" for name in names]
    counts: dict[str, Any] = dict((await fetch(f"select {', '.join(counted)}"))[0])
    estimated = [name for name in names if counts[name] > EXACT_COUNT]
    for name in estimated:
        ((plan,),) = await fetch(f"explain (format json) select from {name}")
        counts[name] = max(int(loads(plan)[0]["Plan"]["Plan Rows"]), EXACT_COUNT)
    return {**counts, "estimated": estimated}
