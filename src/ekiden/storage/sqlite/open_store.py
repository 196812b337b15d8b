"""Opening the file of an SQLite store: its numbered migrations, its clock, and its threads.

The format is the number of the last migration that ran (`PRAGMA user_version`).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, partial
from pathlib import Path
from typing import NamedTuple

import apsw

from ekiden.core.dataclass import dataclass
from ekiden.core.errors import StoreEmpty, StoreReadOnly, StoreUnavailable
from ekiden.core.roles import Clock
from ekiden.storage.copying import Migration, check_applied, check_newer, load_migrations
from ekiden.storage.sqlite.connection import (
    LeaseClock,
    StoreClock,
    check_engine,
    connect,
    connect_read_only,
    prepare_file,
    query,
    unavailable,
    write_transaction,
)
from ekiden.storage.sqlite.readers import FileWatch, Readers
from ekiden.storage.sqlite.writer import Writer

FOLDER = Path(__file__).parent / "migrations"
APPLICATION_ID = 0x454B4944
"""Marks the file as ours: `EKID`."""
MIGRATIONS_TABLE = (
    "CREATE TABLE migrations ("
    "number INTEGER PRIMARY KEY, checksum TEXT NOT NULL, works_with INTEGER) STRICT"
)


@cache
def shipped() -> tuple[Migration, ...]:
    """The migrations of this Ekiden, in order."""
    return load_migrations(FOLDER)


def migrate(
    db: apsw.Connection, where: str, migrations: Sequence[Migration], *, create: bool = True
) -> int:
    """Bring the file to the newest format and return its number; without `create`, raise
    `StoreEmpty` if it has no tables.

    A newer format that works with ours stays as it is. Two processes may call this at once: the
    second waits and finds nothing to do. Raises `StoreTooNew`, `StoreTooOld`, `MigrationChanged`,
    `StoreUnavailable` for another program's file, and `apsw.Error`.
    """
    known = migrations[-1].number
    current = check_format(db, where, migrations, may_be_newer=True)
    if current >= known:
        return current
    if current == 0 and not create:
        raise StoreEmpty(where, "it has no tables")
    with write_transaction(db):
        # Another process may have migrated while this one waited for the lock.
        current = check_format(db, where, migrations, may_be_newer=True)
        if current == 0:
            db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            db.execute(MIGRATIONS_TABLE)
        for migration in migrations:
            if migration.number > current:
                db.execute(migration.sql)
                db.execute(
                    "INSERT INTO migrations (number, checksum, works_with) VALUES (?, ?, ?)",
                    (migration.number, migration.checksum, migration.works_with),
                )
        db.execute(f"PRAGMA user_version = {max(known, current)}")
    return max(known, current)


def check_readable(db: apsw.Connection, where: str, migrations: Sequence[Migration]) -> None:
    """Raise `StoreEmpty`, `StoreReadOnly` for an older format, which must be migrated first, and
    the other errors of `migrate`."""
    current = check_format(db, where, migrations, may_be_newer=True)
    if current == 0:
        raise StoreEmpty(where, "it has no tables")
    if current < migrations[-1].number:
        known = migrations[-1].number
        raise StoreReadOnly(
            where, f"it has format {current}, and must be migrated to {known} first"
        )


def adopt_boot(db: apsw.Connection, lease_clock: LeaseClock, clock: Clock) -> int:
    """Convert the stored times to this boot of the machine. Returns wall time minus lease clock in
    milliseconds, as measured by the first process after the boot.

    A restart of the machine ends every lease, because the owners are dead. Delays continue by the
    wall clock.
    """
    boot, offset_ms = _stored_boot(db)
    if boot == lease_clock.boot:
        return offset_ms
    with write_transaction(db):
        # Another process may have done this while this one waited for the lock.
        boot, offset_ms = _stored_boot(db)
        if boot != lease_clock.boot:
            old_offset_ms, offset_ms = offset_ms, clock.now_us() // 1000 - lease_clock.now_ms()
            db.execute(
                "UPDATE sessions SET owner = NULL, lease_until = NULL"
                " WHERE owner IS NOT NULL OR lease_until IS NOT NULL"
            )
            db.execute(
                # A taken message is due at once, since its owner is dead. The times of the others
                # are moved to the new lease clock, which began at zero again.
                "UPDATE messages SET owner = NULL, due_ms = iif(owner IS NULL, due_ms + ?1, 0),"
                " expires_ms = expires_ms + ?1 WHERE state = 'open'",
                (old_offset_ms - offset_ms,),
            )
            db.execute("DELETE FROM machine")
            db.execute("INSERT INTO machine VALUES (?, ?)", (lease_clock.boot, offset_ms))
    return offset_ms


def boot_offset(db: apsw.Connection, lease_clock: LeaseClock) -> int | None:
    """The result of `adopt_boot` without changing the file; `None` if the stored times belong to
    another boot, so that no lease is valid."""
    boot, offset_ms = _stored_boot(db)
    return offset_ms if boot == lease_clock.boot else None


def _stored_boot(db: apsw.Connection) -> tuple[str, int]:
    for boot, offset_ms in db.execute("SELECT boot, offset_ms FROM machine"):
        return str(boot), int(offset_ms)
    return "", 0


def check_format(
    db: apsw.Connection,
    where: str,
    migrations: Sequence[Migration],
    *,
    may_be_newer: bool = False,
) -> int:
    """The format of the file, 0 for a new file; raises as `migrate` does.

    With `may_be_newer`, a newer format that works with the last of `migrations` is accepted.
    """
    if db.in_transaction:
        return _format(db, where, migrations, may_be_newer=may_be_newer)
    # One transaction: another process may be creating the tables, and half of them would look like
    # another program's file.
    db.execute("BEGIN")
    try:
        return _format(db, where, migrations, may_be_newer=may_be_newer)
    finally:
        if db.in_transaction:
            db.execute("ROLLBACK")


def _format(
    db: apsw.Connection, where: str, migrations: Sequence[Migration], *, may_be_newer: bool
) -> int:
    application = _pragma(db, "application_id")
    if application == 0 and not query(db, "SELECT 1 FROM sqlite_schema LIMIT 1"):
        return 0
    if application != APPLICATION_ID:
        raise StoreUnavailable(
            f"{where} is an SQLite database of another program: name another file"
        )
    current, known = _pragma(db, "user_version"), migrations[-1].number
    if current > known:
        works = "SELECT number, works_with FROM migrations"
        ran = dict(query(db, works)) if may_be_newer else {}
        check_newer(where, known=known, ran=ran, found=current)
    applied = dict(query(db, "SELECT number, checksum FROM migrations"))
    check_applied(where, migrations, applied)
    if current != (last := max(applied, default=0)):
        raise StoreUnavailable(
            f"{where} was altered: its user_version is {current}, but the last migration of its "
            f"tables is {last}: restore it from a backup, or set user_version to {last}"
        )
    return current


def _pragma(db: apsw.Connection, name: str) -> int:
    ((value,),) = query(db, f"PRAGMA {name}")
    return int(value)


class FormatCheck:
    """Refuses work in a file that another process has migrated since it was opened.

    Called in a write transaction, or after a read: formats only grow, so if the file has its old
    format after the read, it had it during the read. Costs about 2 µs. Raises as `migrate` does.
    """

    __slots__ = ("_found", "_migrations", "_where")

    def __init__(self, where: str, migrations: Sequence[Migration]) -> None:
        self._where = where
        self._migrations = migrations
        self._found = migrations[-1].number

    def __call__(self, db: apsw.Connection) -> None:
        """Raise `StoreTooNew` if the format of the file does not work with ours."""
        found = _pragma(db, "user_version")
        if found != self._found:
            self._found = check_format(db, self._where, self._migrations, may_be_newer=True)


class OpenStore(NamedTuple):
    """The threads and the clock of an open store. None of them refers to the store, so that a store
    that was never closed can be collected."""

    writer: Writer
    readers: Readers
    watch: FileWatch
    clock: StoreClock
    is_read_only: bool
    leases_are_void: bool
    """Whether the stored leases are those of another boot, and may not be removed."""

    def close_reads(self) -> None:
        """Close all connections but the writer's; blocks. The last connection to the file moves the
        WAL into it, and only the writer's connection can."""
        self.readers.close()
        self.watch.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreFile:
    """The file of a store, and how to open it."""

    path: Path
    create: bool
    """Whether to create a missing file."""
    busy_s: float
    """How long a statement waits for another process's transaction."""
    clock: Clock
    lease_clock: LeaseClock
    engine_version: str
    migrations: Sequence[Migration]

    def open(self) -> OpenStore:
        """Open the file and bring it to our format; blocks. Raises the errors of `Store.open`."""
        check_engine(self.engine_version)
        prepare_file(self.path, create=self.create)
        try:
            return self._open_for_writing()
        # Without the right to write, the store can still be read. If that fails too, the first
        # error tells more.
        except (apsw.ReadOnlyError, apsw.CantOpenError) as exc:
            try:
                return self._open_read_only()
            except apsw.Error:
                raise self._unavailable(exc) from exc
        except apsw.Error as exc:
            raise self._unavailable(exc) from exc

    def _open_for_writing(self) -> OpenStore:
        db = self._connect()
        try:
            migrate(db, str(self.path), self.migrations, create=self.create)
            offset_ms = adopt_boot(db, self.lease_clock, self.clock)
        except BaseException:
            db.close()
            raise
        return self._start(db, offset_ms)

    def _open_read_only(self) -> OpenStore:
        db = self._connect_read_only()
        try:
            check_readable(db, str(self.path), self.migrations)
            offset_ms = boot_offset(db, self.lease_clock)
        except BaseException:
            db.close()
            raise
        return self._start(db, offset_ms, is_read_only=True)

    def _start(
        self, db: apsw.Connection, offset_ms: int | None, *, is_read_only: bool = False
    ) -> OpenStore:
        """Start the threads. `offset_ms` is that of `StoreClock`; `None` if the stored leases are
        those of another boot."""
        leases_are_void = offset_ms is None
        if offset_ms is None:
            offset_ms = self.clock.now_us() // 1000 - self.lease_clock.now_ms()
        clock = StoreClock(lease_clock=self.lease_clock, wall=self.clock, offset_ms=offset_ms)
        if is_read_only:
            # Every write then fails with an error that says so.
            connect_to_read = connect_to_write = self._connect_read_only
        else:
            connect_to_read = partial(connect, self.path, busy_s=self.busy_s, read_only=True)
            connect_to_write = self._connect
        check = FormatCheck(str(self.path), self.migrations)
        readers = Readers(connect_to_read, check, self._unavailable, str(self.path))
        watch = FileWatch(readers, connect_to_read)
        writer = Writer(
            connect=connect_to_write,
            check=check,
            now=clock.now,
            translate=self._unavailable,
            on_change=watch.notify,
            name=str(self.path),
        )
        writer.start(db)
        return OpenStore(writer, readers, watch, clock, is_read_only, leases_are_void)

    def _connect(self) -> apsw.Connection:
        return connect(self.path, busy_s=self.busy_s)

    def _connect_read_only(self) -> apsw.Connection:
        return connect_read_only(self.path, busy_s=self.busy_s)

    def _unavailable(self, exc: apsw.Error) -> StoreUnavailable:
        return unavailable(self.path, exc)
