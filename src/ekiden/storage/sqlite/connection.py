"""Connections to the file, readable errors, the holder of its lock, and the clock of leases."""

from __future__ import annotations

import ctypes
import os
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from json import JSONDecodeError
from pathlib import Path
from typing import Any, NamedTuple

import apsw

from ekiden.core.errors import EngineTooOld, StoreEmpty, StoreReadOnly, StoreUnavailable
from ekiden.core.roles import Clock

NEEDED_ENGINE = "3.51.3"
_SMALLEST_FILE = 512
_STATEMENTS_CACHED = 200
_RETRY_S = 0.001

UNREADABLE = (UnicodeDecodeError, JSONDecodeError)
"""What reading raises when bytes in the file were changed: to text or JSON that is none."""

_creating = threading.Lock()

_LOCKS = Path("/proc/locks")
_WAL_BYTES = range(120, 123)
"""In the file `-shm`: the locks of a writer, of a checkpoint and of a recovery."""
_FILE_BYTES = range(0x40000000, 0x40000200)
"""In the database itself: the locks of a file that is not in WAL mode, or is being switched."""


def lock_holders(path: Path) -> str:
    """Who has the file locked, in words: processes with their numbers and names.

    Only Linux tells. Nothing is opened: to close a file would drop the locks that this process has
    on it.
    """
    try:
        lines = _LOCKS.read_text("ascii").splitlines()
    except (OSError, ValueError):
        return "another process, and this system does not tell which"
    pids = dict.fromkeys(
        pid
        for file, held in ((Path(f"{path}-shm"), _WAL_BYTES), (path, _FILE_BYTES))
        for pid in _holders(lines, file, held)
    )
    return " and ".join(map(_described, pids)) or "a process that cannot be seen from here"


def _holders(lines: list[str], file: Path, held: range) -> list[int]:
    try:
        found = file.stat()
    except OSError:
        return []
    place = f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}:{found.st_ino}"
    # Some file systems show another device to programs than their locks have.
    inode = f":{found.st_ino}"
    locks = [lock for line in lines if (lock := _written(line, held)) is not None]
    exact = [pid for pid, where in locks if where == place]
    return exact or [pid for pid, where in locks if where.endswith(inode)]


def _written(line: str, held: range) -> tuple[int, str] | None:
    """Process and file of a lock for writing in that range of bytes; `None` for all others.

    Such as ``2: POSIX  ADVISORY  WRITE 4711 08:01:1234 120 120``; one who waits has ``->`` in it.
    """
    fields = line.split()
    if len(fields) != 8 or fields[1] != "POSIX" or fields[3] != "WRITE":
        return None
    first = int(fields[6])
    last = first if fields[7] == "EOF" else int(fields[7])
    if first not in held and last not in held:
        return None
    return int(fields[4]), fields[5]


def _described(pid: int) -> str:
    if pid == os.getpid():
        return f"this process itself ({pid}), through another connection"
    try:
        # The name alone: an argument may be a secret.
        name = Path(f"/proc/{pid}/comm").read_text("utf-8", "replace").strip()
    except OSError:
        return f"process {pid}"
    return f"process {pid} ({name})"


def check_engine(version: str) -> None:
    """`EngineTooOld` for an SQLite that can corrupt a WAL file."""
    if _numbers(version) < _numbers(NEEDED_ENGINE):
        raise EngineTooOld(
            "SQLite",
            found=version,
            needed=NEEDED_ENGINE,
            advice="older ones can lose data in WAL mode; pip install -U apsw brings a new one",
        )


def prepare_file(path: Path, *, create: bool = True) -> None:
    """Make the folder and the file if they are missing; only this user may read the file.

    Raises `StoreUnavailable`, and without `create` `StoreEmpty` for a file of 0 bytes. A file that
    exists is never opened here: closing it would drop the locks that SQLite has on it for this
    process's other connections.
    """
    try:
        if create and not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            with _creating, suppress(FileExistsError):
                os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        size = path.stat().st_size
    except OSError as exc:
        raise StoreUnavailable(
            f"cannot open {path}: {exc.strerror or exc}: check the path and its permissions"
        ) from exc
    if path.is_dir():
        raise StoreUnavailable(f"{path} is a folder: name a file in it")
    if size == 0 and not create:
        raise StoreEmpty(str(path), "the file has 0 bytes")
    # SQLite takes a file that is shorter than any of its own for a new one, and writes over it.
    if 0 < size < _SMALLEST_FILE:
        raise StoreUnavailable(f"{path} is not an SQLite database: name another file")


def connect(path: Path, *, busy_s: float, read_only: bool = False) -> apsw.Connection:
    """A connection in WAL mode that syncs every commit; raises `apsw.Error`, which is
    `apsw.ReadOnlyError` or `apsw.CantOpenError` if this user may not write.

    A statement waits `busy_s` for another process's transaction. `read_only` is for reading beside
    a connection that writes.
    """
    db = apsw.Connection(
        str(path), flags=apsw.SQLITE_OPEN_READWRITE, statementcachesize=_STATEMENTS_CACHED
    )
    try:
        if db.readonly("main"):
            raise apsw.ReadOnlyError("attempt to write a readonly database")
        db.set_busy_handler(_patience(busy_s))
        _use_wal(db, busy_s)
        db.execute("PRAGMA synchronous = FULL; PRAGMA temp_store = MEMORY")
        if read_only:
            db.execute("PRAGMA query_only = ON")
    except BaseException:
        db.close()
        raise
    return db


def connect_to_look(path: Path, *, busy_s: float) -> apsw.Connection:
    """A connection to a file that this user may not write to; raises `apsw.Error`.

    Nothing is written, nor are files made beside it. While others have the file open, their last
    writes are seen; else it is read as a file that does not change.
    """
    options = ["immutable=1"]
    wal = path.with_name(f"{path.name}-wal")
    if wal.exists():
        # An empty WAL holds no writes, so the file alone is complete. With writes in it, reading
        # the file as unchanging would miss them.
        options = ["mode=ro", *options] if wal.stat().st_size == 0 else ["mode=ro"]
    for option in options:
        db = apsw.Connection(
            f"{path.as_uri()}?{option}",
            flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI,
            statementcachesize=_STATEMENTS_CACHED,
        )
        try:
            db.set_busy_handler(_patience(busy_s))
            query(db, "SELECT count(*) FROM sqlite_schema")
            db.execute("PRAGMA query_only = ON; PRAGMA temp_store = MEMORY")
        except apsw.CantOpenError:
            db.close()
            if option is options[-1]:
                raise
        except BaseException:
            db.close()
            raise
        else:
            return db
    raise AssertionError("the last way connects or raises")


def check_in_place(db: apsw.Connection, path: Path) -> None:
    """`StoreUnavailable` if the file was removed, replaced or cut off since it was opened.

    SQLite would continue to write to a file that can no longer be found.
    """
    moved = ctypes.c_int()
    db.file_control("main", apsw.SQLITE_FCNTL_HAS_MOVED, ctypes.addressof(moved))
    if moved.value or path.stat().st_size == 0:
        raise StoreUnavailable(
            f"{path} was removed, replaced or cut off since it was opened: what is written now is "
            "lost; end this process, put the file back, and start again"
        )


def query(
    db: apsw.Connection, sql: str, values: Sequence[str | int | float | bytes | None] = ()
) -> list[tuple[Any, ...]]:
    """All rows of a statement.

    A number of rows (`LIMIT`) stands in the statement and is no value: SQLite plans a statement
    anew when such a value is bound, which takes longer than most statements.
    """
    return db.execute(sql, values).fetchall()


def unavailable(path: Path, exc: apsw.Error) -> StoreUnavailable:
    """What to tell people about a failure of the engine."""
    match exc:
        case apsw.BusyError() | apsw.LockedError():
            why = f"{lock_holders(path)} keeps it locked: try again, or end that process"
        case apsw.FullError():
            why = "the disk is full: make room and try again; what was acknowledged is safe"
        case apsw.NotADBError():
            why = "it is not an SQLite database: name another file"
        case apsw.CorruptError():
            why = "the file is damaged: restore it from a backup"
        case apsw.ReadOnlyError():
            return StoreReadOnly(str(path), f"it cannot be written ({exc})")
        case apsw.CantOpenError() | apsw.PermissionsError():
            why = "it cannot be opened: check that it exists, and the rights of it and its folder"
            if path.with_name(f"{path.name}-wal").exists():
                why += f"; the last writes are in {path.name}-wal: copy both to read them"
        case apsw.IOError():
            why = "reading or writing the disk failed: try again, and check the disk"
        case _:
            why = "the database engine failed"
    return StoreUnavailable(f"{path}: {why} ({exc})")


def _patience(busy_s: float) -> Callable[[int], bool]:
    """Asks again every millisecond until `busy_s` passed.

    The engine's own handler sleeps longer and longer, up to 100 ms, and a process that writes all
    the time is then always quicker than one that waits.
    """
    deadline = 0.0

    def ask_again(times: int) -> bool:
        nonlocal deadline
        now = time.monotonic()
        if times == 0:
            deadline = now + busy_s
        time.sleep(_RETRY_S)
        return now < deadline

    return ask_again


def _use_wal(db: apsw.Connection, busy_s: float) -> None:
    """Switch to WAL; SQLite does not wait by itself while others do the same."""
    deadline = time.monotonic() + busy_s
    while True:
        try:
            ((mode,),) = query(db, "PRAGMA journal_mode = WAL")
        except apsw.BusyError:
            if time.monotonic() > deadline:
                raise
            time.sleep(_RETRY_S)
            continue
        if mode != "wal":
            raise apsw.CantOpenError(f"the file system does not allow WAL mode, only {mode}")
        return


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseClock:
    """Milliseconds that every process on this machine reads alike."""

    boot: str
    """Names the run of the machine that the times belong to; those of another run mean nothing."""
    now_ms: Callable[[], int]


class TransactionTime(NamedTuple):
    """The time of a transaction."""

    ms: int
    """On the lease clock."""
    us: int
    """On the store's clock: the lease clock, counted from 1970."""
    wall_us: int
    """For people, and for the line of sessions that are ready."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreClock:
    """What time it is, in all three ways."""

    lease_clock: LeaseClock
    wall: Clock
    offset_ms: int
    """Wall time minus lease clock, as the first who used the file after a boot saw it."""

    def now(self) -> TransactionTime:
        """The time now."""
        ms = self.lease_clock.now_ms()
        return TransactionTime(ms, (ms + self.offset_ms) * 1000, self.wall.now_us())

    def now_us(self) -> int:
        """The store's clock now."""
        return (self.lease_clock.now_ms() + self.offset_ms) * 1000


def machine_clock(boot_id: Path = _BOOT_ID) -> LeaseClock:
    """The time since the machine started, which cannot be set.

    Where the system does not name its boots such a time could be taken for one of an earlier
    boot, so there it is the wall clock.
    """
    clock_id = getattr(time, "CLOCK_BOOTTIME", None)
    try:
        boot = boot_id.read_text("ascii").strip()
    except OSError:
        boot = ""
    if not boot or clock_id is None:
        return LeaseClock(boot="wall", now_ms=lambda: time.time_ns() // 1_000_000)
    return LeaseClock(boot=boot, now_ms=lambda: time.clock_gettime_ns(clock_id) // 1_000_000)
