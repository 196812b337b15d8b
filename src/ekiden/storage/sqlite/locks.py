"""Which process has a file locked."""

from __future__ import annotations

import os
from pathlib import Path

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
