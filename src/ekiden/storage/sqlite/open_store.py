"""Opening the file of an SQLite store: its migration, its clock, and the threads that serve it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import apsw

from ekiden.core.dataclass import dataclass
from ekiden.core.errors import StoreUnavailable
from ekiden.core.roles import Clock
from ekiden.storage.formats import Migration
from ekiden.storage.sqlite.connection import (
    LeaseClock,
    StoreClock,
    check_engine,
    connect,
    connect_read_only,
    prepare_file,
    unavailable,
)
from ekiden.storage.sqlite.migrate import adopt_boot, boot_offset, check_readable, migrate
from ekiden.storage.sqlite.readers import FileWatch, Readers
from ekiden.storage.sqlite.writer import Writer


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
        readers = Readers(connect_to_read, self._unavailable, str(self.path))
        watch = FileWatch(readers, connect_to_read)
        writer = Writer(
            connect=connect_to_write,
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
