"""Files that are replaced whole, by one writer at a time."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import sys
import time
from collections.abc import Iterator
from pathlib import Path

_NEW_MODE = 0o600
"""Settings may hold secrets of MCP servers."""
_PAUSE_S = 0.01
_BUSY = (errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES, errno.EDEADLK)


def replace_file(path: Path, data: bytes) -> None:
    """Let `path`, which is no symbolic link, hold `data`, on the disk when this returns.

    An existing file keeps its mode and, where that is allowed, its owner. The caller sees to it
    that there is one writer at a time. `OSError` leaves the file as it was.
    """
    # One fixed name: what a killed writer left behind is removed by the next one.
    fresh = path.with_name(f".{path.name}.new")
    fresh.unlink(missing_ok=True)
    try:
        _write(fresh, data, like=path)
        os.replace(fresh, path)
    except BaseException:
        fresh.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Bring the names in `folder` to the disk, where the system can do that."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _write(fresh: Path, data: bytes, *, like: Path) -> None:
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _NEW_MODE)
    with open(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        _take_over(fresh, like)
        os.fsync(descriptor)


def _take_over(fresh: Path, like: Path) -> None:
    try:
        old = like.stat()
    except FileNotFoundError:
        return
    with contextlib.suppress(OSError, AttributeError):
        os.chown(fresh, old.st_uid, old.st_gid)
    os.chmod(fresh, stat.S_IMODE(old.st_mode))


if sys.platform == "win32":
    import msvcrt

    def _try_lock(descriptor: int) -> None:
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)

else:
    import fcntl

    def _try_lock(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


@contextlib.contextmanager
def locked(path: Path, *, patience_s: float) -> Iterator[None]:
    """Keep other callers for `path` out, in this process and in others.

    The lock is on a file beside it, since `path` itself is replaced; the system frees it when its
    holder dies. `TimeoutError` if another one holds it for longer than `patience_s`, `OSError` if
    the folder takes no file.
    """
    lock = path.with_name(f".{path.name}.lock")
    deadline = time.monotonic() + patience_s
    descriptor = _hold(lock, deadline)
    try:
        yield
    finally:
        # Removed while it is held: whoever waits for it sees that it is gone, and makes a new one.
        with contextlib.suppress(OSError):
            lock.unlink()
        os.close(descriptor)


def _hold(lock: Path, deadline: float) -> int:
    while True:
        descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600)
        try:
            _wait(descriptor, deadline)
            if _is_still_there(descriptor, lock):
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def _wait(descriptor: int, deadline: float) -> None:
    while True:
        try:
            _try_lock(descriptor)
        except OSError as exc:
            if exc.errno not in _BUSY:
                raise
        else:
            return
        if time.monotonic() >= deadline:
            raise TimeoutError
        time.sleep(_PAUSE_S)


def _is_still_there(descriptor: int, lock: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(lock))
    except FileNotFoundError:
        return False
