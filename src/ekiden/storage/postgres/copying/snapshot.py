"""Reading a whole PostgreSQL schema at one moment, and listing the schemas with stores."""

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
    TABLES,
    Examination,
    Row,
    TableName,
    TargetState,
    check_current,
    holding,
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

BESIDE = """
select substr(nspname, length($1) + 1) as name from pg_namespace as space
where starts_with(nspname, $1) and exists (
    select from pg_class
    where relnamespace = space.oid and relname = 'sessions' and relkind in ('r', 'p')
) order by 1"""
T = TypeVar("T")
PATIENCE_S = 3600.0
"""Of a statement over a whole table."""
_SIZES = 20_000
"""Of rows that are asked for at once."""
# Not from information_schema, which shows a role only what it may read.
_COLUMNS = """
select relname, attname from pg_attribute join pg_class as place on place.oid = attrelid
where relnamespace = (select oid from pg_namespace where nspname = $1)
    and relkind in ('r', 'p') and attnum > 0 and not attisdropped"""
_MAY_USE = "select has_schema_privilege($1, 'usage')"
_LEASES = "select count(*) from sessions where lease_until > clock_timestamp()"
# Sessions that somebody has are ready, but for moments; of these there is an index.
_READY_LEASES = f"{_LEASES} and status = 'ready' and owner is not null"
_TAKEN = f"""
select count(*) from messages
where state = 'open' and owner not like '{OF_SESSIONS}' and due_at > clock_timestamp()"""
_LOST = """
select count(*) from {table} where {column} > 0
    and not exists (select from {home} where num = {column})"""
_HAS_CHECKSUMS = "select current_setting('data_checksums') = 'on'"
_CHECKSUM_FAILURES = """
select checksum_failures from pg_stat_database where datname = current_database()"""
_BELONGING = (
    ("events", "session", "sessions"),
    ("steps", "session", "sessions"),
    ("search_entries", "space", "search_spaces"),
)


async def stores_beside(store: PostgresStore, joint: str) -> list[str]:
    """What other stores' schemas add to that of `store`, behind the `joint`."""
    database = store._database
    found = await database.query(BESIDE, f"{database.address.schema}{joint}", repeatable=True)
    return [row["name"] for row in found]


class PostgresSnapshot:
    """`StoreSnapshot` of a schema, in one transaction that reads what was there when it began."""

    def __init__(self, address: PostgresAddress, *, may_be_absent: bool = False) -> None:
        self._address = address
        self.url = self._address.shown
        self.missing: Sequence[str] = ()
        self._may_be_absent = may_be_absent
        self._connection: Any = None
        self._columns: dict[str, set[str]] = {}
        self._format = 0

    async def __aenter__(self) -> Self:
        self._connection = await connected(self._address)
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
            records = await self._run(cursor.fetch(size, timeout=PATIENCE_S))
            try:
                page = from_schema(table, records)
            except (ValueError, TypeError) as exc:
                problem = f"a row of its table {table} cannot be read ({exc})"
                raise NotCopyable(self.url, problem) from exc
            yield page

    async def _page_sizes(self, table: TableName) -> AsyncIterator[int]:
        """How many rows each page has: a driver holds in memory all that it is told to fetch."""
        cursor = await self._cursor(sizes_sql(table))
        rows = size = 0
        while sizes := await self._run(cursor.fetch(_SIZES, timeout=PATIENCE_S)):
            for (each,) in sizes:
                if rows and (rows == PAGE_ROWS or size + each > PAGE_BYTES):
                    yield rows
                    rows = size = 0
                rows += 1
                size += each
        if rows:
            yield rows

    async def _cursor(self, sql: str) -> Any:
        return await self._run(self._connection.cursor(sql, timeout=PATIENCE_S))

    async def facts(self, *, exact: bool = True) -> Mapping[str, Any]:
        counts: dict[str, Any] = dict.fromkeys(TABLES, 0)
        tables = [table for table in TABLES if table in self._columns]
        if exact:
            counts.update({table: await self._value(count_sql(table)) for table in tables})
        else:
            counts.update(await count_tables(self.fetch, tables))
        estimated = counts.setdefault("estimated", [])
        leases, there = _LEASES, "sessions" in self._columns
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
            "leases": await self._value(leases) if there else 0,
            "taken": await self._value(_TAKEN) if has_states else 0,
            "unfinished": None if mark is None else str(mark["source"]),
        }

    async def neighbours(self, joint: str) -> Sequence[str]:
        return [row["name"] for row in await self.fetch(BESIDE, f"{self._address.schema}{joint}")]

    async def state(self, joint: str) -> TargetState:
        """What is there already, for a copy into it."""
        return TargetState(
            holds=holding(await self.facts(), self.missing),
            mark=await self._mark(),
            neighbours=await self.neighbours(joint),
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
            faults += await self._lost()
        else:
            not_checked.append(LEFT_TO_VERIFY)
        return Examination(faults=faults, checked=checked, not_checked=not_checked)

    async def _lost(self) -> list[str]:
        found = []
        for table, column, home in _BELONGING:
            if {table, home} <= self._columns.keys():
                count = await self._value(_LOST.format(table=table, column=column, home=home))
                if count:
                    found.append(f"{count} of the rows in {table} belong to none of the {home}")
        return found

    def view(self) -> Store:
        check_current(self.url, found=self._format, known=shipped()[-1].number)
        return cast("Store", _View(self, self._address))

    async def fetch(self, sql: str, *args: Any) -> list[Any]:
        """The rows of a statement as they were."""
        rows: list[Any] = await self._run(self._connection.fetch(sql, *args, timeout=PATIENCE_S))
        return rows

    async def _open(self) -> None:
        connection, address = self._connection, self._address
        check_engine(connection.get_server_version().major)
        check_encoding(connection.get_settings().server_encoding, address)
        await connection.execute("begin isolation level repeatable read read only")
        # The indexes have the order of the rows: nothing is read before it is wanted.
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
        self._columns, self.missing = _whole(columns, self._format)

    async def _value(self, sql: str, *args: Any) -> Any:
        return await self._run(self._connection.fetchval(sql, *args, timeout=PATIENCE_S))

    async def _run(self, work: Awaitable[T]) -> T:
        return await told(self._address, work)


class _Reading(Database):
    """The one connection of a source, for what asks a database."""

    def __init__(self, source: PostgresSnapshot, address: PostgresAddress) -> None:
        super().__init__(address, min_size=0, max_size=1, prepare=_nothing)
        self._source = source

    async def query(self, sql: str, *args: Any, repeatable: bool = False) -> list[Any]:
        return await self._source.fetch(sql, *args)


class _View(PostgresSessions, PostgresJournal, Documents):
    """Sessions, their events and the documents as they were."""

    def __init__(self, source: PostgresSnapshot, address: PostgresAddress) -> None:
        self._database = _Reading(source, address)
        self.url = source.url


def _whole(columns: Mapping[str, set[str]], number: int) -> tuple[dict[str, set[str]], list[str]]:
    """The tables that are whole, and what is missing in a schema of that format."""
    found: dict[str, set[str]] = {}
    missing: list[str] = []
    for table in TABLES:
        there = columns.get(table, set())
        # What older formats had is known to their migrations only.
        expected = set(stored_columns(table)) if number == shipped()[-1].number else there
        lost = [f"the table {table}"] if expected and not there else []
        lost = lost or [f"the column {name} of {table}" for name in sorted(expected - there)]
        missing += lost
        if there and not lost:
            found[table] = there
    return found, missing


async def connected(address: PostgresAddress) -> Any:
    """A connection whose transactions may take as long as they need."""
    database = Database(address, min_size=0, max_size=1, prepare=_nothing)
    connection = await database.connect()
    await told(address, connection.execute("set idle_in_transaction_session_timeout = 0"))
    return connection


async def told(address: PostgresAddress, work: Awaitable[T]) -> T:
    """The result of a call of the driver, its errors translated."""
    try:
        return await work
    except FOREIGN as exc:
        raise translated(exc, address.shown, sent=True) from exc


async def _nothing(connection: Any) -> None:
    """Nothing to prepare."""
