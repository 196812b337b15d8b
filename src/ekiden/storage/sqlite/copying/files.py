"""Copies of whole SQLite files, and moving them into place."""

from __future__ import annotations

import asyncio
import errno
import os
from pathlib import Path

import apsw

from ekiden.core.errors.stored_data import StoreNotEmpty
from ekiden.storage.copying import TABLES
from ekiden.storage.sqlite.connection import prepare_file, query, unavailable
from ekiden.storage.sqlite.copy_rows import count_sql
from ekiden.storage.sqlite.copying.snapshot import connect_for_snapshot
from ekiden.storage.sqlite.migrate import check_format, migrate, shipped

_BUSY_MS = 10_000
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
    """Move a file within a file system to a free name; `StoreNotEmpty` if the name is taken."""
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
