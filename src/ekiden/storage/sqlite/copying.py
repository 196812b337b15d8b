"""Snapshots and copies of whole SQLite files, and moving them into place."""

from __future__ import annotations

import asyncio
import errno
import os
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any, Self, TypeVar, cast

import apsw

from ekiden.core.errors import StoreDamaged, StoreReadOnly, StoreUnavailable
from ekiden.core.errors.stored_data import NotCopyable, StoreNotEmpty
from ekiden.storage.base import Store
from ekiden.storage.copying import (
    LEFT_TO_VERIFY,
    OF_SESSIONS,
    PAGE_BYTES,
    PAGE_ROWS,
    PARENTS,
    TABLES,
    Examination,
    Numbers,
    Row,
    TableName,
    check_current,
    row_size,
    whole_tables,
)
from ekiden.storage.sqlite.connection import (
    UNREADABLE,
    LeaseClock,
    check_engine,
    connect_read_only,
    machine_clock,
    prepare_file,
    query,
    unavailable,
)
from ekiden.storage.sqlite.open_store import (
    MIGRATIONS_TABLE,
    OpenStore,
    check_format,
    migrate,
    shipped,
)
from ekiden.storage.sqlite.rows import count_sql, count_tables, from_file, select_sql
from ekiden.storage.sqlite.store import SqliteStore
from ekiden.storage.values import EXACT_COUNT, parse_feed_cursor

T = TypeVar("T")

_NUMBERED = ("sessions", "messages", "search_spaces")
_BROKEN_ROW = (ValueError, TypeError, LookupError, RecursionError)
_BUSY_MS = 10_000
_STEPS = 10_000
"""Instructions of the engine between two checks of the time limit."""
_LEASES = "SELECT count(*) FROM sessions WHERE lease_until > ?"
_TAKEN = (
    "SELECT count(*) FROM messages WHERE state = 'open' AND due_ms > ?"
    f" AND owner NOT LIKE '{OF_SESSIONS}'"
)
# In large tables only the head of the queue is checked: leased rows are at its head.
_FIRST_LEASES = (
    "SELECT count(*) FROM (SELECT lease_until FROM sessions INDEXED BY sessions_ready"
    f" WHERE status = 'ready' ORDER BY place_us LIMIT {EXACT_COUNT}) WHERE lease_until > ?"
)
_FIRST_TAKEN = (
    "SELECT count(*) FROM (SELECT owner, due_ms FROM messages WHERE state = 'open'"
    f" LIMIT {EXACT_COUNT}) WHERE owner NOT LIKE '{OF_SESSIONS}' AND due_ms > ?"
)

# Without the internal tables of the engine, which differ between its versions.
_TABLES = """
SELECT name FROM sqlite_schema
WHERE type = 'table' AND name NOT LIKE 'sqlite%' AND name NOT GLOB 'search_words_*'"""


@cache
def expected_columns(number: int) -> Mapping[str, frozenset[str]]:
    """The columns of all tables in this format; format 0 is an empty file."""
    if not number:
        return {}
    db = apsw.Connection(":memory:")
    try:
        db.execute(MIGRATIONS_TABLE)
        for migration in shipped():
            if migration.number <= number:
                db.execute(migration.sql)
        return {table: frozenset(_columns(db, table)) for (table,) in query(db, _TABLES)}
    finally:
        db.close()


class SqliteSnapshot:
    """`StoreSnapshot` of a file, in one read transaction on a connection that cannot write."""

    def __init__(self, path: Path, *, lease_clock: LeaseClock | None = None) -> None:
        self._path = path.absolute()
        self.url = str(self._path)
        self._lease_clock = lease_clock or machine_clock()
        self._thread = _own_thread()
        self._db: apsw.Connection | None = None
        self._columns: dict[str, set[str]] = {}
        self.missing: Sequence[str] = ()
        self._offset_ms = 0
        self._boot = ""
        self._format = 0

    async def __aenter__(self) -> Self:
        self._thread = _own_thread()
        try:
            await self.read(self._open)
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await asyncio.shield(self.read(self._close))
        self._thread.shutdown(wait=False)

    async def pages(self, table: TableName) -> AsyncIterator[Sequence[Row]]:
        if table not in self._columns:
            return
        rows = await self.read(lambda db: db.execute(*self._select(table)))
        while page := await self.read(lambda _: self._page(table, rows)):
            yield page

    async def facts(self, *, exact: bool = True) -> Mapping[str, Any]:
        return await self.read(lambda db: self._facts(db, exact=exact))

    async def numbers(self) -> Numbers:
        """The highest numbers that the store ever assigned."""
        return await self.read(self._numbers)

    async def neighbours(self, separator: str) -> Sequence[str]:
        folder = self._path.with_name(f"{self._path.stem}.tenants")
        return [each.stem for each in folder.glob("*.db")]

    async def rank(self, cursor: str) -> int:
        """The number of events in the feed up to this cursor. Raises `UserError` for other text."""
        place = parse_feed_cursor(cursor)
        sql = f"{count_sql('events')} AND id <= ?"
        return await self.read(lambda db: int(query(db, sql, (place,))[0][0]))

    async def examine(self, *, limit_s: float | None = None) -> Examination:
        if limit_s is None:
            return await self.read(self._examine)
        return await self.read(lambda db: self._examine_quickly(db, limit_s))

    def view(self) -> Store:
        check_current(self.url, found=self._format, known=shipped()[-1].number)
        return _SnapshotStore(self, self._path, self._lease_clock)

    # In the thread

    async def read(self, work: Callable[[apsw.Connection], T]) -> T:
        """The result of `work` on the snapshot's connection."""

        def run() -> T:
            # `_open` and `_close` do not use their argument.
            return work(cast("apsw.Connection", self._db))

        try:
            return await asyncio.wrap_future(self._thread.submit(run))
        except apsw.Error as exc:
            raise unavailable(self._path, exc) from exc
        except UNREADABLE as exc:
            raise StoreDamaged(self.url, exc) from exc

    def _open(self, _: object) -> None:
        check_engine(apsw.sqlite_lib_version())
        if not self._path.is_file():
            raise StoreUnavailable(f"there is no store at {self._path}")
        self._db = db = connect_for_snapshot(self._path)
        db.execute("BEGIN")
        self._format = check_format(db, self.url, shipped())
        expected = expected_columns(self._format)
        self._columns, self.missing = whole_tables(
            expected, {table: _columns(db, table) for table in expected}
        )
        if self._format:
            # There is at most one row.
            for self._boot, self._offset_ms in db.execute("SELECT boot, offset_ms FROM machine"):
                pass

    def _close(self, _: object) -> None:
        db, self._db = self._db, None
        if db is not None:
            db.close(force=True)

    def _select(self, table: TableName) -> tuple[str, tuple[int, ...]]:
        sql = select_sql(table)
        return sql, (self._offset_ms,) if "?1" in sql else ()

    def _page(self, table: TableName, rows: Iterable[Row]) -> Sequence[Row]:
        page: list[Row] = []
        size = 0
        try:
            for row in islice(rows, PAGE_ROWS):
                page.append(row)
                size += row_size(row)
                if size > PAGE_BYTES:
                    break
            return from_file(table, page)
        except _BROKEN_ROW as exc:
            problem = f"a row of its table {table} cannot be read ({exc})"
            raise NotCopyable(self.url, problem) from exc

    def _facts(self, db: apsw.Connection, *, exact: bool) -> Mapping[str, Any]:
        tables = [table for table in TABLES if table in self._columns]
        counts: dict[str, Any] = dict.fromkeys(TABLES, 0)
        if exact:
            counts.update({table: query(db, count_sql(table))[0][0] for table in tables})
        else:
            counts.update(count_tables(db, tables))
        estimated = counts.setdefault("estimated", [])
        leases = taken = 0
        # A restart of the machine ends all leases.
        if self._boot == self._lease_clock.boot:
            now = (self._lease_clock.now_ms(),)
            if "sessions" in estimated:
                ((leases,),) = query(db, _FIRST_LEASES, now)
                estimated.append("leases")
            elif "sessions" in self._columns:
                ((leases,),) = query(db, _LEASES, now)
            if "messages" in estimated:
                ((taken,),) = query(db, _FIRST_TAKEN, now)
                estimated.append("taken")
            elif "messages" in self._columns:
                ((taken,),) = query(db, _TAKEN, now)
        return {
            "engine": "sqlite",
            "version": apsw.sqlite_lib_version(),
            "format": self._format,
            **counts,
            "leases": leases,
            "taken": taken,
            "unfinished": None,
        }

    def _numbers(self, db: apsw.Connection) -> Numbers:
        if not self._columns:
            return Numbers()
        given = dict(query(db, "SELECT name, seq FROM sqlite_sequence"))
        ((free,),) = query(db, "SELECT max(seq) FROM events WHERE session = 0")
        entries = 0
        if "search_entries" in self._columns:
            ((entries,),) = query(db, "SELECT max(id) FROM search_entries")
        return Numbers(
            **{name: int(given.get(name) or 0) for name in _NUMBERED},
            search_entries=entries or 0,
            free_events=free or 0,
        )

    def _examine_quickly(self, db: apsw.Connection, limit_s: float) -> Examination:
        missing = [f"{each} is missing" for each in self.missing]
        deadline = time.monotonic() + limit_s
        db.set_progress_handler(lambda: time.monotonic() > deadline, _STEPS)
        try:
            results = query(db, "PRAGMA quick_check(20)")
        except apsw.InterruptError:
            return Examination(
                faults=missing,
                checked=(),
                not_checked=[
                    f"pages and rows of the file, which took longer than {limit_s:g} s",
                    LEFT_TO_VERIFY,
                ],
            )
        finally:
            db.set_progress_handler(None)
        return Examination(
            faults=[*missing, *(str(text) for (text,) in results if text != "ok")],
            checked=["pages and rows of the file"],
            not_checked=["whether indexes have all rows", LEFT_TO_VERIFY],
        )

    def _examine(self, db: apsw.Connection) -> Examination:
        return Examination(
            faults=self._faults(db),
            checked=["pages, rows and indexes of the file", "references between rows"],
            not_checked=(),
        )

    def _faults(self, db: apsw.Connection) -> list[str]:
        results = query(db, "PRAGMA integrity_check(20)")
        found = [str(text) for (text,) in results if text != "ok"]
        found += [f"{each} is missing" for each in self.missing]
        for table, column, parent in PARENTS:
            if not {table, parent} <= self._columns.keys():
                continue
            sql = (
                f"SELECT count(*) FROM {table} WHERE {column} > 0 AND NOT EXISTS"
                f" (SELECT 1 FROM {parent} WHERE num = {column})"
            )
            ((count,),) = query(db, sql)
            if count:
                found.append(f"{count} of the rows in {table} belong to none of the {parent}")
        return found


class _SnapshotStore(SqliteStore):
    """The snapshot as a store that can only be read."""

    def __init__(self, source: SqliteSnapshot, path: Path, lease_clock: LeaseClock) -> None:
        super().__init__(path, create=False, lease_clock=lease_clock)
        self._source = source

    async def _read(self, read: Callable[[apsw.Connection], T], *, quick: bool = False) -> T:
        return await self._source.read(read)

    async def _running(self) -> OpenStore:
        raise StoreReadOnly(self.url, "it is read as it was at one moment")


def _columns(db: apsw.Connection, table: str) -> set[str]:
    return {str(row[1]) for row in query(db, f"PRAGMA table_xinfo({table})")}


def _own_thread() -> ThreadPoolExecutor:
    """An executor with one thread, because the connection's transaction belongs to one caller."""
    return ThreadPoolExecutor(1, thread_name_prefix="ekiden-sqlite-snapshot")


def connect_for_snapshot(path: Path) -> apsw.Connection:
    """A connection that only reads, and does not switch the file to WAL. Raises `apsw.Error`."""
    # Writable, because SQLite may have to create the file `-shm` before it can read a WAL.
    db = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        if db.readonly("main"):
            raise apsw.ReadOnlyError
        db.set_busy_timeout(_BUSY_MS)
        query(db, "SELECT count(*) FROM sqlite_schema")
        db.execute("PRAGMA query_only = ON; PRAGMA temp_store = MEMORY")
    except (apsw.CantOpenError, apsw.ReadOnlyError):
        db.close()
        return connect_read_only(path, busy_s=_BUSY_MS / 1000)
    except BaseException:
        db.close()
        raise
    return db


_NO_LINKS = frozenset({errno.EPERM, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP, errno.EMLINK})
"""The errors of file systems without hard links, such as that of a memory stick."""
_TARGET_ERRORS = (apsw.FullError, apsw.IOError, apsw.CantOpenError, apsw.ReadOnlyError)
"""Errors that concern the target of a copy, not its source."""


async def copy_file(source: Path, target: Path) -> None:
    """Copy a store, even while others write to it, in the newest format to a file that only this
    user may read. Raises `StoreUnavailable`.

    All leases in the copy are void: the process that opens it finds the times of another boot, and
    releases what was claimed in the source.
    """
    prepare_file(target)
    try:
        db = connect_for_snapshot(source)
    except apsw.Error as exc:
        raise unavailable(source, exc) from exc
    running = asyncio.ensure_future(asyncio.to_thread(_copy, db, source, target))
    try:
        await asyncio.shield(running)
    except asyncio.CancelledError:
        # Wait for the thread: the connection must not be closed while it is used. An interrupt ends
        # only a statement that runs, so it is repeated.
        while not running.done():
            db.interrupt()
            await asyncio.wait([running], timeout=0.1)
        raise
    finally:
        db.close()


def _copy(db: apsw.Connection, source: Path, target: Path) -> None:
    try:
        # VACUUM INTO writes only to the other file, but is refused with this setting.
        db.execute("PRAGMA query_only = OFF")
        db.execute("VACUUM INTO ?", (str(target),))
        copy = apsw.Connection(str(target), flags=apsw.SQLITE_OPEN_READWRITE)
        try:
            migrate(copy, str(target), shipped())
            copy.execute("UPDATE machine SET boot = ''")
        finally:
            copy.close()
    except apsw.Error as exc:
        raise unavailable(target if isinstance(exc, _TARGET_ERRORS) else source, exc) from exc
    sync(target)


def put_in_place(file: Path, target: Path) -> None:
    """Move a copy to the path of a store. Raises `StoreNotEmpty` unless the store is empty or
    missing, and `StoreUnavailable` if others have it open.

    An empty store is locked exclusively meanwhile, and its WAL is removed: SQLite would otherwise
    replay the old WAL into the copy.
    """
    if target.exists():
        _replace_empty(file, target)
    else:
        for left in (f"{target.name}-wal", f"{target.name}-journal"):
            if target.with_name(left).exists():
                raise StoreNotEmpty(str(target), f"{left}, which a lost store left")
        move_to_new(file, target)
    sync(target.parent)


def move_to_new(file: Path, target: Path) -> None:
    """Move a file within a file system to a free name. Raises `StoreNotEmpty` if the name is
    taken."""
    try:
        try:
            # Unlike a rename, a link never replaces a file.
            target.hardlink_to(file)
        except OSError as exc:
            if exc.errno not in _NO_LINKS:
                raise
            # The rename replaces this empty file, which no other process created.
            target.touch(mode=0o600, exist_ok=False)
            file.replace(target)
        else:
            file.unlink()
    except FileExistsError as exc:
        raise StoreNotEmpty(str(target), "something else") from exc


def _replace_empty(file: Path, target: Path) -> None:
    db = apsw.Connection(str(target), flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        db.set_busy_timeout(_BUSY_MS)
        query(db, "PRAGMA locking_mode = EXCLUSIVE")
        query(db, "PRAGMA journal_mode = DELETE")
        db.execute("BEGIN EXCLUSIVE")
        if check_format(db, str(target), shipped()):
            for table in TABLES:
                ((count,),) = query(db, count_sql(table))
                if count:
                    raise StoreNotEmpty(str(target), f"{count} {table.replace('_', ' ')}")
        file.replace(target)
    except apsw.Error as exc:
        raise unavailable(target, exc) from exc
    finally:
        db.close(force=True)


def sync(path: Path) -> None:
    """Sync a file or a folder to the disk."""
    opened = os.open(path, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
