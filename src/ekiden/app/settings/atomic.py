"""Replacing a file so that it is at every instant the old one or the new one, whole."""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path

_NEW_MODE = 0o600
"""Settings may hold secrets of MCP servers."""


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
