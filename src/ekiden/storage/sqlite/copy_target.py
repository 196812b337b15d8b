"""A file that is filled from another store."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self, TypeVar, cast

import apsw

from ekiden.core.clock import SYSTEM_CLOCK
from ekiden.core.copy_errors import CopyDiffers, NotCopyable, StoreNotEmpty
from ekiden.core.ids import new_id
from ekiden.core.jsonio import dumps
from ekiden.core.roles import Clock
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
from ekiden.storage.sqlite.clock import LeaseClock, machine_clock
from ekiden.storage.sqlite.connection import (
    check_engine,
    connect,
    prepare_file,
    query,
    unavailable,
)
from ekiden.storage.sqlite.copy_mark import read_mark
from ekiden.storage.sqlite.copy_rows import Places, count_sql, insert_sql, to_file, word_rows
from ekiden.storage.sqlite.copy_source import SqliteSource, file_identity, own_thread
from ekiden.storage.sqlite.migrate import SHIPPED, adopt_boot, load_migrations, migrate

T = TypeVar("T")

_BUSY_S = 10.0
_GONE = (
    "INSERT INTO events (id, session, seq, type, at_us) SELECT ?1, -1, 1, 'gone', 0"
    " WHERE ?1 > (SELECT coalesce(max(id), 0) FROM events)"
)
_NUMBER = (
    "INSERT INTO sqlite_sequence (name, seq) SELECT ?1, 0"
    " WHERE NOT EXISTS (SELECT 1 FROM sqlite_sequence WHERE name = ?1)"
)
_REMOVE = "DELETE FROM documents WHERE collection = ? AND key = ?"


class SqliteTarget:
    """`BulkTarget` that is a file. Pages are transactions, and nothing waits for the disk until the
    mark is taken away: a power cut leaves a file with the mark."""

    kind: StoreKind = "sqlite"

    def __init__(
        self, path: Path, *, clock: Clock = SYSTEM_CLOCK, lease_clock: LeaseClock | None = None
    ) -> None:
        self._path = path.absolute()
        self.url = str(self._path)
        self._clock = clock
        self._lease_clock = lease_clock or machine_clock()
        self._thread = own_thread()
        self._db: apsw.Connection | None = None
        self._owner = new_id("cpy")
        self._feed = FeedMap(kept=True)
        self._offset_ms = 0
        self._rank = 1

    async def __aenter__(self) -> Self:
        self._thread = own_thread()
        try:
            await self._run(self._open)
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await asyncio.shield(self._run(self._close))
        self._thread.shutdown(wait=False)

    async def state(self, joint: str) -> TargetState:
        source = SqliteSource(self._path, lease_clock=self._lease_clock)
        if not self._path.exists():
            beside = await source.beside(joint)
            return TargetState(identity=file_identity(self._path), beside=beside)
        async with source:
            return await source.state(joint)

    async def begin(self, source: str, *, copy: str, resume: bool) -> bool:
        mark = {"v": 1, "source": source, "owner": self._owner, "copy": copy}

        def work(db: apsw.Connection) -> bool:
            was_marked = self._empty(db, source, resume=resume)
            self._put(db, MARK, mark)
            return was_marked

        return await self._transact(work)

    async def withdraw(self) -> None:
        def work(db: apsw.Connection) -> None:
            self._check_mark(db)
            db.execute(_REMOVE, MARK)

        await self._transact(work)

    async def map_feed(self, kind: StoreKind, numbers: Numbers, events: int) -> FeedMap:
        await self._run(lambda db: db.execute("PRAGMA synchronous = NORMAL"))
        self._feed = FeedMap(kept=kind == self.kind)
        return self._feed

    def cursor(self, places: FeedMap, *, cursor: str, rank: int) -> str:
        return cursor if places.kept else str(rank)

    async def write(self, table: TableName, rows: Sequence[Row]) -> None:
        insert = insert_sql(table)

        def work(db: apsw.Connection) -> None:
            self._check_mark(db)
            places = Places(self._offset_ms, self._feed, self._rank)
            db.executemany(insert, to_file(table, rows, places))
            if table == "search_entries":
                words = "INSERT INTO search_words (rowid, words) VALUES (?, ?)"
                db.executemany(words, word_rows(rows))

        try:
            await self._transact(work)
        except UnicodeEncodeError as exc:
            problem = f"a name in the table {table} has half of a character: {exc.object[:40]!r}"
            raise NotCopyable(f"this into {self.url}", problem) from exc
        except apsw.ConstraintError as exc:
            raise CopyDiffers(self.url, f"somebody else writes to {table} ({exc})") from exc
        if table == "events":
            self._rank += len(rows)

    async def number(self, numbers: Numbers) -> None:
        given = {
            "sessions": numbers.sessions,
            "messages": numbers.messages,
            "search_spaces": numbers.search_spaces,
        }

        def work(db: apsw.Connection) -> None:
            self._check_mark(db)
            for name, last in given.items():
                db.execute(_NUMBER, (name,))
                db.execute(
                    "UPDATE sqlite_sequence SET seq = max(seq, ?) WHERE name = ?", (last, name)
                )
            if self._feed.kept:
                db.execute(_GONE, (numbers.last_place,))

        await self._transact(work)

    def reading(self) -> BulkSource:
        return SqliteSource(self._path, lease_clock=self._lease_clock)

    async def finish(self, *, alone: bool, note: Mapping[str, Any] | None = None) -> None:
        def work(db: apsw.Connection) -> None:
            self._check_mark(db)
            db.execute(_REMOVE, MARK)
            if note is not None:
                self._put(db, NOTE, note)

        await self._run(
            lambda db: query(db, "PRAGMA wal_checkpoint(TRUNCATE); PRAGMA synchronous = FULL")
        )
        await self._transact(work)
        if alone:
            await self._run(_leave_alone)

    async def forget(self, *, alone: bool) -> None:
        await self._transact(lambda db: db.execute(_REMOVE, NOTE))
        if alone:
            await self._run(_leave_alone)

    # In the thread

    async def _run(self, work: Callable[[apsw.Connection], T]) -> T:
        def run() -> T:
            # Opening and closing do without a connection.
            return work(cast("apsw.Connection", self._db))

        try:
            return await asyncio.wrap_future(self._thread.submit(run))
        except apsw.ConstraintError:
            raise
        except apsw.Error as exc:
            raise unavailable(self._path, exc) from exc

    async def _transact(self, work: Callable[[apsw.Connection], T]) -> T:
        def run(db: apsw.Connection) -> T:
            db.execute("BEGIN IMMEDIATE")
            try:
                result = work(db)
                db.execute("COMMIT")
            except BaseException:
                if db.in_transaction:
                    db.execute("ROLLBACK")
                raise
            return result

        return await self._run(run)

    def _open(self, _: object) -> None:
        check_engine(apsw.sqlite_lib_version())
        prepare_file(self._path)
        self._db = db = connect(self._path, busy_s=_BUSY_S)
        migrate(db, self.url, load_migrations(SHIPPED))
        self._offset_ms = adopt_boot(db, self._lease_clock, self._clock)

    def _close(self, _: object) -> None:
        db, self._db = self._db, None
        if db is not None:
            db.close(force=True)

    def _put(self, db: apsw.Connection, name: tuple[str, str], body: Mapping[str, Any]) -> None:
        db.execute(
            "INSERT INTO documents (collection, key, version, updated_us, body)"
            " VALUES (?, ?, 1, ?, ?)",
            (*name, self._clock.now_us(), dumps(body)),
        )

    def _empty(self, db: apsw.Connection, source: str, *, resume: bool) -> bool:
        """Make sure that nothing is there, or remove what an unfinished copy left: whether there
        was one."""
        mark = read_mark(db)
        if mark is None:
            for table in TABLES:
                ((count,),) = query(db, count_sql(table))
                if count:
                    raise StoreNotEmpty(self.url, f"{count} {table.replace('_', ' ')}")
            # Of a session that was deleted; it keeps a number of the feed.
            db.execute("DELETE FROM events")
            db.execute(_REMOVE, NOTE)
            return False
        check_mark(self.url, mark, source=source, resume=resume)
        for table in TABLES:
            db.execute(f"DELETE FROM {table}")
        db.execute("DELETE FROM sqlite_sequence")
        db.execute("INSERT INTO search_words (search_words) VALUES ('delete-all')")
        return True

    def _check_mark(self, db: apsw.Connection) -> None:
        mark = read_mark(db)
        if mark is None or mark["owner"] != self._owner:
            raise CopyDiffers(self.url, "another copy took it over")


def _leave_alone(db: apsw.Connection) -> None:
    """Move everything into the one file. Whoever opens it as a store makes the others again."""
    query(db, "PRAGMA wal_checkpoint(TRUNCATE)")
    query(db, "PRAGMA journal_mode = DELETE")
