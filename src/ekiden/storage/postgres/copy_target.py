"""A schema that is filled from another store."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Self, TypeVar

from ekiden.core.copy_errors import CopyDiffers, NotCopyable, StoreNotEmpty
from ekiden.core.ids import new_id
from ekiden.core.jsonio import dumps
from ekiden.storage.copying import (
    MARK,
    NOTE,
    TABLES,
    BulkSource,
    FeedMap,
    Numbers,
    Row,
    StoreKind,
    TableName,
    TargetState,
    check_mark,
)
from ekiden.storage.postgres.address import parse_address
from ekiden.storage.postgres.copy_mark import read_mark
from ekiden.storage.postgres.copy_rows import count_sql, to_schema, written_columns
from ekiden.storage.postgres.copy_source import PATIENCE_S, PostgresSource, connected, told
from ekiden.storage.postgres.errors import UNIQUE_VIOLATION, UNSTORABLE
from ekiden.storage.postgres.feed import parse_place
from ekiden.storage.postgres.migrate import migrate

T = TypeVar("T")

_LARGEST = 10**18 - 1
"""Of what a cursor can name."""
_MARK = """
insert into documents (collection, key, body) values ($1, $2, $3)
on conflict (collection, key) do update set body = excluded.body"""
_FORGET = "delete from documents where collection = $1 and key = $2"
_HOLD_MARK = "select from documents where collection = $1 and key = $2 for update"
_REMOVE = """
truncate sessions, events, steps, messages, search_spaces, search_entries restart identity;
alter sequence free_events restart;
delete from documents"""
_NEXT = "select pg_snapshot_xmax(pg_current_snapshot())::text::bigint"
_NUMBERED = {
    "sessions_num_seq": "select max(num) from sessions",
    "messages_id_seq": "select max(id) from messages",
    "search_spaces_num_seq": "select max(num) from search_spaces",
    "search_entries_id_seq": "select max(id) from search_entries",
    "free_events": "select max(seq) from events where session = 0",
}


class PostgresTarget:
    """`BulkTarget` that is a schema. Pages are transactions, each one COPY."""

    kind: StoreKind = "postgresql"

    def __init__(self, url: str, *, schema: str | None = None) -> None:
        self._address = parse_address(url, schema)
        self._dsn = url
        self.url = self._address.shown
        self._connection: Any = None
        self._owner = new_id("cpy")
        self._feed = FeedMap(kept=True)
        self._rank = 1

    async def __aenter__(self) -> Self:
        self._connection = await connected(self._address)
        try:
            await self._run(migrate(self._connection, self._address))
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        self._connection.terminate()

    async def state(self, joint: str) -> TargetState:
        schema = self._address.schema
        async with PostgresSource(self._dsn, schema=schema, may_be_absent=True) as source:
            return await source.state(joint)

    async def begin(self, source: str, *, copy: str, resume: bool) -> bool:
        mark = dumps({"v": 1, "source": source, "owner": self._owner, "copy": copy})

        async def work() -> bool:
            was_marked = await self._empty(source, resume=resume)
            await self._connection.execute(_MARK, *MARK, mark)
            return was_marked

        return await self._transact(work)

    async def withdraw(self) -> None:
        async def work() -> None:
            await self._check_mark()
            await self._connection.execute(_FORGET, *MARK)

        await self._transact(work)

    async def map_feed(self, kind: StoreKind, numbers: Numbers, events: int) -> FeedMap:
        if kind == self.kind:
            # Places are numbers of transactions: what is written here later comes after them.
            following = await self._run(self._connection.fetchval(_NEXT))
            self._feed = FeedMap(kept=True, shift=min(0, following - 1 - numbers.last_place))
        else:
            self._feed = FeedMap(kept=False, shift=-events - 1)
        return self._feed

    def cursor(self, places: FeedMap, *, cursor: str, rank: int) -> str:
        if places.kept:
            place, session, seq = parse_place(cursor)
            return f"{place + places.shift}.{session}.{seq}"
        return f"{rank + places.shift}.{_LARGEST}.{_LARGEST}"

    async def write(self, table: TableName, rows: Sequence[Row]) -> None:
        try:
            records = to_schema(table, rows, feed=self._feed, rank=self._rank)
        except OverflowError as exc:
            raise self._not_copyable(table, exc) from exc

        async def work() -> None:
            await self._check_mark()
            await self._connection.copy_records_to_table(
                table,
                records=records,
                columns=written_columns(table),
                schema_name=self._address.schema,
                timeout=PATIENCE_S,
            )

        await self._transact(work, table)
        if table == "events":
            self._rank += len(rows)

    async def number(self, numbers: Numbers) -> None:
        given = (
            numbers.sessions,
            numbers.messages,
            numbers.search_spaces,
            numbers.search_entries,
            numbers.free_events,
        )

        async def work() -> None:
            await self._check_mark()
            for (sequence, highest), last in zip(_NUMBERED.items(), given, strict=True):
                found = await self._connection.fetchval(highest, timeout=PATIENCE_S)
                number = max(last, found or 0)
                if number > 0:
                    await self._connection.execute("select setval($1, $2)", sequence, number)

        await self._transact(work)

    def reading(self) -> BulkSource:
        return PostgresSource(self._dsn, schema=self._address.schema)

    async def finish(self, *, alone: bool, note: Mapping[str, Any] | None = None) -> None:
        async def work() -> None:
            await self._check_mark()
            await self._connection.execute(_FORGET, *MARK)
            if note is not None:
                await self._connection.execute(_MARK, *NOTE, dumps(note))

        tables = ", ".join(TABLES)
        await self._run(self._connection.execute(f"analyze {tables}", timeout=PATIENCE_S))
        await self._transact(work)

    async def forget(self, *, alone: bool) -> None:
        await self._run(self._connection.execute(_FORGET, *NOTE))

    async def _empty(self, source: str, *, resume: bool) -> bool:
        """Make sure that nothing is there, or remove what an unfinished copy left: whether there
        was one."""
        connection = self._connection
        await connection.execute(_HOLD_MARK, *MARK)
        mark = await read_mark(connection)
        if mark is None:
            for table in TABLES:
                count = await connection.fetchval(count_sql(table), timeout=PATIENCE_S)
                if count:
                    raise StoreNotEmpty(self.url, f"{count} {table.replace('_', ' ')}")
            await connection.execute(_FORGET, *NOTE)
            return False
        check_mark(self.url, mark, source=source, resume=resume)
        await connection.execute(_REMOVE, timeout=PATIENCE_S)
        return True

    async def _check_mark(self) -> None:
        mark = await read_mark(self._connection, hold=True)
        if mark is None or mark["owner"] != self._owner:
            raise CopyDiffers(self.url, "another copy took it over")

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
                raise CopyDiffers(self.url, f"somebody else writes to {table}") from exc
            if isinstance(exc.__cause__, UNSTORABLE):
                raise self._not_copyable(table, exc.__cause__) from exc
            raise

    def _not_copyable(self, table: str, exc: BaseException) -> NotCopyable:
        why = str(exc).partition("\n")[0]
        return NotCopyable(f"this into {self.url}", f"a row of the table {table}: {why}")

    async def _run(self, work: Awaitable[T]) -> T:
        return await told(self._address, work)
