"""One writer of a file at a time, also among processes."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

if sys.platform == "win32":
    import msvcrt

    def _try_lock(descriptor: int) -> None:
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)

else:
    import fcntl

    def _try_lock(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


_PAUSE_S = 0.01
_BUSY = (errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES, errno.EDEADLK)


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
