"""Snapshots of whole PostgreSQL schemas, targets of copies, and the schemas with stores."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any, Self, TypeVar, cast

from ekiden.core.errors import StoreUnavailable, UserError
from ekiden.core.errors.stored_data import CopyDiffers, NotCopyable, StoreNotEmpty, StoreUnfinished
from ekiden.core.values import dumps, new_id
from ekiden.storage.base import Store
from ekiden.storage.copying import (
    LEFT_TO_VERIFY,
    MARK,
    OF_SESSIONS,
    PAGE_BYTES,
    PAGE_ROWS,
    PARENTS,
    TABLES,
    Examination,
    Numbers,
    Row,
    TableName,
    TargetState,
    check_current,
    describe_rows,
    whole_tables,
)
from ekiden.storage.postgres.address import PostgresAddress
from ekiden.storage.postgres.copy_rows import (
    count_sql,
    count_tables,
    from_schema,
    read_mark,
    select_sql,
    sizes_sql,
    stored_columns,
    to_schema,
    written_columns,
)
from ekiden.storage.postgres.database import (
    FOREIGN,
    UNIQUE_VIOLATION,
    UNSTORABLE,
    Database,
    translated,
)
from ekiden.storage.postgres.documents import Documents
from ekiden.storage.postgres.journal import PostgresJournal
from ekiden.storage.postgres.sessions import PostgresSessions
from ekiden.storage.postgres.store import (
    APPLIED,
    PostgresStore,
    check_encoding,
    check_engine,
    join,
    migrate,
    missing_migrations,
    shipped,
)

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
        checked, not_checked = [], ["pages of tables and indexes (pg_amcheck checks them)"]
        if await self._value(_HAS_CHECKSUMS):
            checked.append("the checksums of pages that the server has read")
            if failures := await self._value(_CHECKSUM_FAILURES):
                faults.append(f"the server has read {failures} pages with a wrong checksum")
        else:
            not_checked.append("checksums of pages (this server has none)")
        if limit_s is None:
            checked.append("references between rows")
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
        super().__init__(address, min_size=0, max_size=1)
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
    database = Database(address, min_size=0, max_size=1)
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


_LARGEST = 10**18 - 1
"""The largest number in a cursor."""
_MARK = "insert into documents (collection, key, body) values ($1, $2, $3)"
_UNMARK = "delete from documents where collection = $1 and key = $2"
_HOLD_MARK = "select from documents where collection = $1 and key = $2 for update"
_REMOVE = """
truncate sessions, events, steps, messages, search_spaces, search_entries restart identity;
alter sequence free_events restart;
delete from documents"""
_NUMBERED = {
    "sessions_num_seq": "select max(num) from sessions",
    "messages_id_seq": "select max(id) from messages",
    "search_spaces_num_seq": "select max(num) from search_spaces",
    "search_entries_id_seq": "select max(id) from search_entries",
    "free_events": "select max(seq) from events where session = 0",
}


class PostgresTarget:
    """A schema that is filled; `async with` connects, and brings it to the newest format.

    From `mark` to `finish`, other processes refuse to open it. Each page is one transaction with
    one COPY.
    """

    def __init__(self, address: PostgresAddress, *, source: str = "") -> None:
        self.address = address
        self._source = source
        self.url = address.shown
        self._connection: Any = None
        self._owner = new_id("cpy")
        self._events = 0
        self._place = 0
        """The position of the next event in the feed."""

    async def __aenter__(self) -> Self:
        self._connection = await connect_for_copying(self.address)
        try:
            await self._run(migrate(self._connection, self.address))
            await self._run(join(self._connection, self.address))
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        self._connection.terminate()

    def expect_events(self, count: int) -> None:
        """Reserve the positions -count to -1 in the feed for copied events: they come before all
        later events, whose positions are transaction numbers."""
        self._events = count
        self._place = -count

    def cursor(self, rank: int) -> str:
        """The feed cursor after the first `rank` copied events."""
        return f"{rank - self._events - 1}.{_LARGEST}.{_LARGEST}"

    async def write(self, table: TableName, rows: Sequence[Row]) -> None:
        """Add all rows or none. Raises `NotCopyable` for rows that cannot be stored here, and
        `CopyDiffers` if another copy took the schema over."""
        try:
            records = to_schema(table, rows, first_place=self._place)
        except OverflowError as exc:
            raise self._not_copyable(table, exc) from exc

        async def work() -> None:
            await self._check_mark(self._connection)
            await self._connection.copy_records_to_table(
                table,
                records=records,
                columns=written_columns(table),
                schema_name=self.address.schema,
                timeout=TIMEOUT_S,
            )

        await self._transact(work, table)
        if table == "events":
            self._place += len(rows)

    async def number(self, numbers: Numbers) -> None:
        """Continue after the highest numbers of the source, and analyze the tables."""
        given = (
            numbers.sessions,
            numbers.messages,
            numbers.search_spaces,
            numbers.search_entries,
            numbers.free_events,
        )

        async def work() -> None:
            await self._check_mark(self._connection)
            for (sequence, highest), last in zip(_NUMBERED.items(), given, strict=True):
                found = await self._connection.fetchval(highest, timeout=TIMEOUT_S)
                number = max(last, found or 0)
                if number > 0:
                    await self._connection.execute("select setval($1, $2)", sequence, number)

        await self._transact(work)
        await self.analyze()

    async def analyze(self) -> None:
        """Update the server's statistics, which its plans need after many new rows."""
        tables = ", ".join(TABLES)
        await self._run(self._connection.execute(f"analyze {tables}", timeout=TIMEOUT_S))

    async def mark(self, connection: Any, *, resume: bool) -> None:
        """Mark the schema as an unfinished copy of its source, within a transaction.

        Raises `StoreNotEmpty`, also for a copy of another source, and `StoreUnfinished` if it
        already has a mark; with `resume` the contents of that copy are removed instead.
        """
        await connection.execute(_HOLD_MARK, *MARK)
        mark = await read_mark(connection)
        if mark is None:
            for table in TABLES:
                count = await connection.fetchval(count_sql(table), timeout=TIMEOUT_S)
                if count:
                    raise StoreNotEmpty(self.url, f"{count} {table.replace('_', ' ')}")
        else:
            self.check_mark(mark, resume=resume)
            await connection.execute(_REMOVE, timeout=TIMEOUT_S)
        body = dumps({"v": 1, "source": self._source, "owner": self._owner})
        await connection.execute(_MARK, *MARK, body)

    def check_mark(self, mark: Mapping[str, Any], *, resume: bool) -> None:
        """Raise `StoreUnfinished` without `resume`, and `StoreNotEmpty` for a copy of another
        source."""
        if not resume:
            raise StoreUnfinished(self.url, source=str(mark["source"]))
        if mark["source"] != self._source:
            found = f"an unfinished copy of {mark['source']}, not of {self._source}"
            raise StoreNotEmpty(self.url, found)

    async def finish(self, connection: Any) -> None:
        """Remove the mark, within a transaction. Raises `CopyDiffers` if another copy set it."""
        await self._check_mark(connection)
        await connection.execute(_UNMARK, *MARK)

    async def _check_mark(self, connection: Any) -> None:
        mark = await read_mark(connection, hold=True)
        if mark is None or mark["owner"] != self._owner:
            raise CopyDiffers(self.url, "another copy has taken over")

    async def _transact(
        self, work: Callable[[], Awaitable[T]], table: TableName = "documents"
    ) -> T:
        async def run() -> T:
            async with self._connection.transaction():
                return await work()

        try:
            return await self._run(run())
        except Exception as exc:
            if isinstance(exc.__cause__, UNIQUE_VIOLATION):
                raise CopyDiffers(self.url, f"another process writes to {table}") from exc
            if isinstance(exc.__cause__, UNSTORABLE):
                raise self._not_copyable(table, exc.__cause__) from exc
            raise

    def _not_copyable(self, table: str, exc: BaseException) -> NotCopyable:
        why = str(exc).partition("\n")[0]
        return NotCopyable(f"this into {self.url}", f"a row of the table {table}: {why}")

    async def _run(self, work: Awaitable[T]) -> T:
        return await translate_errors(self.address, work)


async def in_one_transaction(
    targets: Sequence[PostgresTarget], work: Callable[[PostgresTarget, Any], Awaitable[None]]
) -> None:
    """Call `work` for each of these schemas of one database, with the same connection, in one
    transaction."""
    first = targets[0].address
    connection = await connect_for_copying(first)

    async def run() -> None:
        async with connection.transaction():
            for target in targets:
                await connection.execute(f'set local search_path = "{target.address.schema}"')
                await work(target, connection)

    try:
        await translate_errors(first, run())
    finally:
        connection.terminate()
