"""PostgreSQL schemas that are filled from SQLite stores."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Self, TypeVar

from ekiden.core.errors.stored_data import CopyDiffers, NotCopyable, StoreNotEmpty, StoreUnfinished
from ekiden.core.values import dumps, new_id
from ekiden.storage.copying import MARK, TABLES, Numbers, Row, TableName
from ekiden.storage.postgres.connection.address import PostgresAddress
from ekiden.storage.postgres.connection.errors import UNIQUE_VIOLATION, UNSTORABLE
from ekiden.storage.postgres.copy_rows import count_sql, read_mark, to_schema, written_columns
from ekiden.storage.postgres.copying.snapshot import PATIENCE_S, connected, told
from ekiden.storage.postgres.migrate import migrate

T = TypeVar("T")

_LARGEST = 10**18 - 1
"""Of what a cursor can name."""
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

    From `mark` to `finish` everybody else refuses it. Pages are transactions, each one COPY.
    """

    def __init__(self, address: PostgresAddress, *, source: str = "") -> None:
        self.address = address
        self._source = source
        self.url = address.shown
        self._connection: Any = None
        self._owner = new_id("cpy")
        self._events = 0
        self._place = 0
        """Of the next event in the feed."""

    async def __aenter__(self) -> Self:
        self._connection = await connected(self.address)
        try:
            await self._run(migrate(self._connection, self.address))
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        self._connection.terminate()

    def expect_events(self, count: int) -> None:
        """Give so many events the places -count to -1 in the feed: before all that come later,
        whose places are numbers of transactions."""
        self._events = count
        self._place = -count

    def cursor(self, rank: int) -> str:
        """The cursor of the feed that stands behind so many of the expected events."""
        return f"{rank - self._events - 1}.{_LARGEST}.{_LARGEST}"

    async def write(self, table: TableName, rows: Sequence[Row]) -> None:
        """Add rows, all or none; `NotCopyable` for what cannot stand here, `CopyDiffers` if
        another copy took the store over."""
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
                timeout=PATIENCE_S,
            )

        await self._transact(work, table)
        if table == "events":
            self._place += len(rows)

    async def number(self, numbers: Numbers) -> None:
        """Give no number again that was given in the source, and count the rows for plans."""
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
                found = await self._connection.fetchval(highest, timeout=PATIENCE_S)
                number = max(last, found or 0)
                if number > 0:
                    await self._connection.execute("select setval($1, $2)", sequence, number)

        await self._transact(work)
        await self.analyze()

    async def analyze(self) -> None:
        """Give the server figures for its plans, after many rows came at once."""
        tables = ", ".join(TABLES)
        await self._run(self._connection.execute(f"analyze {tables}", timeout=PATIENCE_S))

    async def mark(self, connection: Any, *, resume: bool) -> None:
        """Mark it as an unfinished copy of its source, within a transaction.

        `StoreNotEmpty`, also for a copy of another source; `StoreUnfinished` if it has a mark
        already; with `resume` the old content is removed instead.
        """
        await connection.execute(_HOLD_MARK, *MARK)
        mark = await read_mark(connection)
        if mark is None:
            for table in TABLES:
                count = await connection.fetchval(count_sql(table), timeout=PATIENCE_S)
                if count:
                    raise StoreNotEmpty(self.url, f"{count} {table.replace('_', ' ')}")
        else:
            self.check_mark(mark, resume=resume)
            await connection.execute(_REMOVE, timeout=PATIENCE_S)
        body = dumps({"v": 1, "source": self._source, "owner": self._owner})
        await connection.execute(_MARK, *MARK, body)

    def check_mark(self, mark: Mapping[str, Any], *, resume: bool) -> None:
        """`StoreUnfinished` unless the copy that left the mark is to be completed, and
        `StoreNotEmpty` if it was one of another source."""
        if not resume:
            raise StoreUnfinished(self.url, source=str(mark["source"]))
        if mark["source"] != self._source:
            found = f"an unfinished copy of {mark['source']}, not of {self._source}"
            raise StoreNotEmpty(self.url, found)

    async def finish(self, connection: Any) -> None:
        """Take the mark away, within a transaction; `CopyDiffers` if it is another's."""
        await self._check_mark(connection)
        await connection.execute(_UNMARK, *MARK)

    async def _check_mark(self, connection: Any) -> None:
        mark = await read_mark(connection, hold=True)
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
                raise CopyDiffers(self.url, f"another process writes to {table}") from exc
            if isinstance(exc.__cause__, UNSTORABLE):
                raise self._not_copyable(table, exc.__cause__) from exc
            raise

    def _not_copyable(self, table: str, exc: BaseException) -> NotCopyable:
        why = str(exc).partition("\n")[0]
        return NotCopyable(f"this into {self.url}", f"a row of the table {table}: {why}")

    async def _run(self, work: Awaitable[T]) -> T:
        return await told(self.address, work)


async def in_one_transaction(
    targets: Sequence[PostgresTarget], work: Callable[[PostgresTarget, Any], Awaitable[None]]
) -> None:
    """Do `work` with each of the targets, which are schemas of one database, and a connection to
    it: for all or for none."""
    first = targets[0].address
    connection = await connected(first)

    async def run() -> None:
        async with connection.transaction():
            for target in targets:
                await connection.execute(f'set local search_path = "{target.address.schema}"')
                await work(target, connection)

    try:
        await told(first, run())
    finally:
        connection.terminate()
