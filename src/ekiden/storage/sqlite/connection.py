"""Connections to the file, transactions, readable errors, lock holders, and the lease clock."""

from __future__ import annotations

import ctypes
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
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
"""The errors of reading damaged bytes, which are no longer text or JSON."""

_creating = threading.Lock()

_LOCKS = Path("/proc/locks")
_WAL_BYTES = range(120, 123)
"""The bytes of the file `-shm` that a writer, a checkpoint or a recovery locks."""
_FILE_BYTES = range(0x40000000, 0x40000200)
"""The bytes of the database that are locked when it is not in WAL mode, or being switched."""


def lock_holders(path: Path) -> str:
    """The processes that have the file locked, in words, with their ids and names.

    Only Linux reports them. No file is opened: closing it would drop the locks that this process
    has on it.
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
    return " and ".join(map(_process_name, pids)) or "a process that cannot be seen from here"


def _holders(lines: list[str], file: Path, held: range) -> list[int]:
    try:
        found = file.stat()
    except OSError:
        return []
    place = f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}:{found.st_ino}"
    # Some file systems report another device to programs than to their locks.
    inode = f":{found.st_ino}"
    locks = [lock for line in lines if (lock := _write_lock(line, held)) is not None]
    exact = [pid for pid, where in locks if where == place]
    return exact or [pid for pid, where in locks if where.endswith(inode)]


def _write_lock(line: str, held: range) -> tuple[int, str] | None:
    """Process and file of a write lock in this range of bytes; `None` for other lines.

    A line is like ``2: POSIX  ADVISORY  WRITE 4711 08:01:1234 120 120``; that of a process that
    waits for the lock also has ``->``.
    """
    fields = line.split()
    if len(fields) != 8 or fields[1] != "POSIX" or fields[3] != "WRITE":
        return None
    first = int(fields[6])
    last = first if fields[7] == "EOF" else int(fields[7])
    if first not in held and last not in held:
        return None
    return int(fields[4]), fields[5]


def _process_name(pid: int) -> str:
    if pid == os.getpid():
        return f"this process itself ({pid}), through another connection"
    try:
        # The name alone: an argument may be a secret.
        name = Path(f"/proc/{pid}/comm").read_text("utf-8", "replace").strip()
    except OSError:
        return f"process {pid}"
    return f"process {pid} ({name})"


def check_engine(version: str) -> None:
    """Raise `EngineTooOld` for an SQLite that can corrupt a WAL file."""
    if _numbers(version) < _numbers(NEEDED_ENGINE):
        raise EngineTooOld(
            "SQLite",
            found=version,
            needed=NEEDED_ENGINE,
            advice="older ones can lose data in WAL mode; pip install -U apsw brings a new one",
        )


def prepare_file(path: Path, *, create: bool = True) -> None:
    """Create a missing folder and file; only this user may read the file.

    Raises `StoreUnavailable`, and without `create` `StoreEmpty` for a file of 0 bytes. An existing
    file is never opened here: closing it would drop the locks of this process's other connections.
    """
    try:
        if create:
            _create_if_missing(path)
        size = path.stat().st_size
    except OSError as exc:
        raise StoreUnavailable(
            f"cannot open {path}: {exc.strerror or exc}: check the path and its permissions"
        ) from exc
    if path.is_dir():
        raise StoreUnavailable(f"{path} is a folder: name a file in it")
    if size == 0 and not create:
        raise StoreEmpty(str(path), "the file has 0 bytes")
    # SQLite treats a file that is too short for a database as a new one, and overwrites it.
    if 0 < size < _SMALLEST_FILE:
        raise StoreUnavailable(f"{path} is not an SQLite database: name another file")


def _create_if_missing(path: Path) -> None:
    # Closing the new file would drop the locks of a connection that another thread has opened to it
    # meanwhile. So all threads wait until the file is closed, even if they already see it.
    with _creating:
        if path.exists():
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileExistsError):
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))


def connect(path: Path, *, busy_s: float, read_only: bool = False) -> apsw.Connection:
    """A connection in WAL mode that syncs every commit. Raises `apsw.Error`; `apsw.ReadOnlyError`
    or `apsw.CantOpenError` mean that this user may not write.

    A statement waits `busy_s` for another process's transaction. `read_only` refuses writes; it is
    for the readers of a store that has a writer.
    """
    db = apsw.Connection(
        str(path), flags=apsw.SQLITE_OPEN_READWRITE, statementcachesize=_STATEMENTS_CACHED
    )
    try:
        if db.readonly("main"):
            raise apsw.ReadOnlyError("attempt to write a readonly database")
        db.set_busy_handler(_busy_handler(busy_s))
        _use_wal(db, busy_s)
        db.execute("PRAGMA synchronous = FULL; PRAGMA temp_store = MEMORY")
        if read_only:
            db.execute("PRAGMA query_only = ON")
    except BaseException:
        db.close()
        raise
    return db


def connect_read_only(path: Path, *, busy_s: float) -> apsw.Connection:
    """A connection to a file that this user may not write. Raises `apsw.Error`.

    Writes nothing, and creates no files next to the database. While other processes have the file
    open, their last writes are seen; otherwise the file is read as one that does not change.
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
            db.set_busy_handler(_busy_handler(busy_s))
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
    """Raise `StoreUnavailable` if the file was removed, replaced or truncated since it was opened.

    SQLite would continue to write to a file that no other process can find.
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

    A `LIMIT` is written into the statement and is not a bound value: SQLite prepares a statement
    again when such a value is bound, which takes longer than running most statements.
    """
    return db.execute(sql, values).fetchall()


@contextmanager
def write_transaction(db: apsw.Connection) -> Iterator[None]:
    """A transaction that takes the write lock at once: one that reads first and asks for the lock
    later fails if another process has written in between."""
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise


def unavailable(path: Path, exc: apsw.Error) -> StoreUnavailable:
    """The error for a failure of the engine, with its cause and the way out."""
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


def _busy_handler(busy_s: float) -> Callable[[int], bool]:
    """A busy handler that retries every millisecond until `busy_s` has passed.

    The engine's own handler sleeps longer and longer, up to 100 ms, so a waiting process would
    never get the lock from a process that writes all the time.
    """
    deadline = 0.0

    def retry(times: int) -> bool:
        nonlocal deadline
        now = time.monotonic()
        if times == 0:
            deadline = now + busy_s
        time.sleep(_RETRY_S)
        return now < deadline

    return retry


def _use_wal(db: apsw.Connection, busy_s: float) -> None:
    """Switch to WAL; here SQLite does not call the busy handler while another process switches."""
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
    """A clock in milliseconds that all processes on this machine share."""

    boot: str
    """The id of the machine's boot: times of another boot cannot be compared."""
    now_ms: Callable[[], int]


class TransactionTime(NamedTuple):
    """The time of a transaction."""

    ms: int
    """Milliseconds of the lease clock."""
    us: int
    """Microseconds of the store's clock: the lease clock, counted from 1970."""
    wall_us: int
    """Wall time, for people and for the queue of ready sessions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreClock:
    """The lease clock, the store's clock and the wall clock."""

    lease_clock: LeaseClock
    wall: Clock
    offset_ms: int
    """Wall time minus lease clock, as measured by the first process that used the file after a
    boot."""

    def now(self) -> TransactionTime:
        """The current time of all three clocks."""
        ms = self.lease_clock.now_ms()
        return TransactionTime(ms, (ms + self.offset_ms) * 1000, self.wall.now_us())

    def now_us(self) -> int:
        """The current time of the store's clock."""
        return (self.lease_clock.now_ms() + self.offset_ms) * 1000


def machine_clock(boot_id: Path = _BOOT_ID) -> LeaseClock:
    """The time since the machine started, which nobody can set.

    On systems without boot ids, a time of an earlier boot could not be recognized; there it is the
    wall clock.
    """
    clock_id = getattr(time, "CLOCK_BOOTTIME", None)
    try:
        boot = boot_id.read_text("ascii").strip()
    except OSError:
        boot = ""
    if not boot or clock_id is None:
        return LeaseClock(boot="wall", now_ms=lambda: time.time_ns() // 1_000_000)
    return LeaseClock(boot=boot, now_ms=lambda: time.clock_gettime_ns(clock_id) // 1_000_000)
