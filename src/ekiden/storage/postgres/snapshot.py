"""Snapshots of whole PostgreSQL schemas, and the list of schemas with stores."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Mapping, Sequence
from typing import Any, Self, TypeVar, cast

from ekiden.core.errors import StoreUnavailable, UserError
from ekiden.core.errors.stored_data import NotCopyable
from ekiden.storage.base import Store
from ekiden.storage.copying import (
    LEFT_TO_VERIFY,
    OF_SESSIONS,
    PAGE_BYTES,
    PAGE_ROWS,
    PARENTS,
    TABLES,
    Examination,
    Row,
    TableName,
    TargetState,
    check_current,
    describe_rows,
    whole_tables,
)
from ekiden.storage.postgres.connection.address import PostgresAddress
from ekiden.storage.postgres.connection.database import Database
from ekiden.storage.postgres.connection.errors import FOREIGN, translated
from ekiden.storage.postgres.copy_rows import (
    count_sql,
    count_tables,
    from_schema,
    read_mark,
    select_sql,
    sizes_sql,
    stored_columns,
)
from ekiden.storage.postgres.documents import Documents
from ekiden.storage.postgres.journal import PostgresJournal
from ekiden.storage.postgres.migrate import (
    APPLIED,
    check_encoding,
    check_engine,
    missing_migrations,
    shipped,
)
from ekiden.storage.postgres.sessions import PostgresSessions
from ekiden.storage.postgres.store import PostgresStore

_NEIGHBOURS = """
select substr(nspname, length($1) + 1) as name from pg_namespace as space
where starts_with(nspname, $1) and exists (
    select from pg_class
    where relnamespace = space.oid and relname = 'sessions' and relkind in ('r', 'p')
) order by 1"""
T = TypeVar("T")
TIMEOUT_S = 3600.0
"""The time-out of a statement over a whole table."""
_SIZES = 20_000
"""The number of row sizes that are fetched at once."""
# Not from information_schema, which hides tables that the role may not read.
_COLUMNS = """
select relname, attname from pg_attribute join pg_class as place on place.oid = attrelid
where relnamespace = (select oid from pg_namespace where nspname = $1)
    and relkind in ('r', 'p') and attnum > 0 and not attisdropped"""
_MAY_USE = "select has_schema_privilege($1, 'usage')"
_LEASES = "select count(*) from sessions where lease_until > clock_timestamp()"
# Sessions with an owner are nearly always `ready`, and for these there is an index.
_READY_LEASES = f"{_LEASES} and status = 'ready' and owner is not null"
_TAKEN = f"""
select count(*) from messages
where state = 'open' and owner not like '{OF_SESSIONS}' and due_at > clock_timestamp()"""
_LOST = """
select count(*) from {table} where {column} > 0
    and not exists (select from {parent} where num = {column})"""
_HAS_CHECKSUMS = "select current_setting('data_checksums') = 'on'"
_CHECKSUM_FAILURES = """
select checksum_failures from pg_stat_database where datname = current_database()"""


async def neighbour_stores(store: PostgresStore, separator: str) -> list[str]:
    """The suffixes, after the `separator`, of schemas whose names begin with that of `store`."""
    database = store._database
    prefix = f"{database.address.schema}{separator}"
    return [row["name"] for row in await database.query(_NEIGHBOURS, prefix, repeatable=True)]


class PostgresSnapshot:
    """`StoreSnapshot` of a schema, in one repeatable-read transaction."""

    def __init__(self, address: PostgresAddress, *, may_be_absent: bool = False) -> None:
        self._address = address
        self.url = self._address.shown
        self.missing: Sequence[str] = ()
        self._may_be_absent = may_be_absent
        self._connection: Any = None
        self._columns: dict[str, set[str]] = {}
        self._format = 0

    async def __aenter__(self) -> Self:
        self._connection = await connect_for_copying(self._address)
        try:
            await self._run(self._open())
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        self._connection.terminate()

    async def pages(self, table: TableName) -> AsyncIterator[Sequence[Row]]:
        if table not in self._columns:
            return
        cursor = await self._cursor(select_sql(table))
        async for size in self._page_sizes(table):
            records = await self._run(cursor.fetch(size, timeout=TIMEOUT_S))
            try:
                page = from_schema(table, records)
            except (ValueError, TypeError) as exc:
                problem = f"a row of its table {table} cannot be read ({exc})"
                raise NotCopyable(self.url, problem) from exc
            yield page

    async def _page_sizes(self, table: TableName) -> AsyncIterator[int]:
        """The number of rows of each page. Sizes are read first, because the driver keeps all
        fetched rows in memory."""
        cursor = await self._cursor(sizes_sql(table))
        rows = size = 0
        while sizes := await self._run(cursor.fetch(_SIZES, timeout=TIMEOUT_S)):
            for (each,) in sizes:
                if rows and (rows == PAGE_ROWS or size + each > PAGE_BYTES):
                    yield rows
                    rows = size = 0
                rows += 1
                size += each
        if rows:
            yield rows

    async def _cursor(self, sql: str) -> Any:
        return await self._run(self._connection.cursor(sql, timeout=TIMEOUT_S))

    async def facts(self, *, exact: bool = True) -> Mapping[str, Any]:
        counts: dict[str, Any] = dict.fromkeys(TABLES, 0)
        tables = [table for table in TABLES if table in self._columns]
        if exact:
            counts.update({table: await self._value(count_sql(table)) for table in tables})
        else:
            counts.update(await count_tables(self.fetch, tables))
        estimated = counts.setdefault("estimated", [])
        leases, has_sessions = _LEASES, "sessions" in self._columns
        if "sessions" in estimated:
            leases = _READY_LEASES
            estimated.append("leases")
        has_states = "state" in self._columns.get("messages", ())
        mark = await self._mark()
        return {
            "engine": "postgresql",
            "version": await self._value("select current_setting('server_version')"),
            "format": self._format,
            **counts,
            "leases": await self._value(leases) if has_sessions else 0,
            "taken": await self._value(_TAKEN) if has_states else 0,
            "unfinished": None if mark is None else str(mark["source"]),
        }

    async def neighbours(self, separator: str) -> Sequence[str]:
        prefix = f"{self._address.schema}{separator}"
        return [row["name"] for row in await self.fetch(_NEIGHBOURS, prefix)]

    async def state(self, separator: str) -> TargetState:
        """The present contents, for a copy into this schema."""
        return TargetState(
            holds=describe_rows(await self.facts(), self.missing),
            mark=await self._mark(),
            neighbours=await self.neighbours(separator),
        )

    async def _mark(self) -> dict[str, Any] | None:
        if "documents" not in self._columns:
            return None
        return await self._run(read_mark(self._connection))

    async def examine(self, *, limit_s: float | None = None) -> Examination:
        faults = [f"{each} is missing" for each in self.missing]
        checked, not_checked = [], ["pages of tables and indexes, which pg_amcheck looks at"]
        if await self._value(_HAS_CHECKSUMS):
            checked.append("the checksums of pages that the server has read")
            if failures := await self._value(_CHECKSUM_FAILURES):
                faults.append(f"the server has read {failures} pages with a wrong checksum")
        else:
            not_checked.append("checksums of pages, which this server does not keep")
        if limit_s is None:
            checked.append("what rows belong to")
            faults += await self._rows_without_parent()
        else:
            not_checked.append(LEFT_TO_VERIFY)
        return Examination(faults=faults, checked=checked, not_checked=not_checked)

    async def _rows_without_parent(self) -> list[str]:
        found = []
        for table, column, parent in PARENTS:
            if {table, parent} <= self._columns.keys():
                count = await self._value(_LOST.format(table=table, column=column, parent=parent))
                if count:
                    found.append(f"{count} of the rows in {table} belong to none of the {parent}")
        return found

    def view(self) -> Store:
        check_current(self.url, found=self._format, known=shipped()[-1].number)
        return cast("Store", _SnapshotStore(self, self._address))

    async def fetch(self, sql: str, *args: Any) -> list[Any]:
        """The rows of a statement in the snapshot."""
        rows: list[Any] = await self._run(self._connection.fetch(sql, *args, timeout=TIMEOUT_S))
        return rows

    async def _open(self) -> None:
        connection, address = self._connection, self._address
        check_engine(connection.get_server_version().major)
        check_encoding(connection.get_settings().server_encoding, address)
        await connection.execute("begin isolation level repeatable read read only")
        # The server then reads the rows by index, in order, and does not sort a table first.
        await connection.execute("set local enable_sort = off")
        columns: dict[str, set[str]] = {}
        for table, column in await connection.fetch(_COLUMNS, address.schema):
            columns.setdefault(table, set()).add(column)
        if "migrations" not in columns:
            if self._may_be_absent:
                return
            raise StoreUnavailable(f"there is no store at {self.url}")
        if not await connection.fetchval(_MAY_USE, address.schema):
            raise UserError(f"the database role may not use {self.url} as a store")
        applied = dict(await connection.fetch(APPLIED))
        missing_migrations(shipped(), applied, address)
        self._format = max(applied, default=0)
        # Only the migrations know the columns of older formats.
        is_current = self._format == shipped()[-1].number
        self._columns, self.missing = whole_tables(
            {
                table: stored_columns(table) if is_current else columns[table]
                for table in TABLES
                if is_current or table in columns
            },
            columns,
        )

    async def _value(self, sql: str, *args: Any) -> Any:
        return await self._run(self._connection.fetchval(sql, *args, timeout=TIMEOUT_S))

    async def _run(self, work: Awaitable[T]) -> T:
        return await translate_errors(self._address, work)


class _SnapshotDatabase(Database):
    """A `Database` that reads through the snapshot's connection."""

    def __init__(self, source: PostgresSnapshot, address: PostgresAddress) -> None:
        super().__init__(address, min_size=0, max_size=1, prepare=_nothing)
        self._source = source

    async def query(self, sql: str, *args: Any, repeatable: bool = False) -> list[Any]:
        return await self._source.fetch(sql, *args)


class _SnapshotStore(PostgresSessions, PostgresJournal, Documents):
    """The snapshot's sessions, events and documents, as a store that can only be read."""

    def __init__(self, source: PostgresSnapshot, address: PostgresAddress) -> None:
        self._database = _SnapshotDatabase(source, address)
        self.url = source.url


async def connect_for_copying(address: PostgresAddress) -> Any:
    """A connection whose transactions may take any time; the caller must terminate it."""
    database = Database(address, min_size=0, max_size=1, prepare=_nothing)
    connection = await database.connect()
    try:
        no_timeout = connection.execute("set idle_in_transaction_session_timeout = 0")
        await translate_errors(address, no_timeout)
    except BaseException:
        connection.terminate()
        raise
    return connection


async def translate_errors(address: PostgresAddress, work: Awaitable[T]) -> T:
    """The result of a call of the driver, with its errors translated."""
    try:
        return await work
    except FOREIGN as exc:
        raise translated(exc, address.shown, sent=True) from exc


async def _nothing(connection: Any) -> None:
    """Nothing to prepare."""
