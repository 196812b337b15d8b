"""A small file system that a test can fill, where the system allows to make one."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

_CHUNK = bytes(1 << 14)


class SmallDisk:
    """A file system in memory, mounted at `folder`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._filler = folder / "filler"

    def fill(self) -> None:
        """Leave no room at all."""
        with self._filler.open("ab", buffering=0) as file:
            for chunk in (_CHUNK, bytes(1)):
                try:
                    while file.write(chunk):
                        pass
                except OSError:
                    continue

    def make_room(self) -> None:
        """Take away what filled it."""
        self._filler.unlink()


@contextmanager
def small_disk(*, size_mb: int) -> Iterator[SmallDisk]:
    """A disk for the time of the body, which a server of another user can reach too; skips the
    test where none can be made."""
    with tempfile.TemporaryDirectory(prefix="ekiden-small-disk-") as folder:
        Path(folder).chmod(0o755)
        options = f"size={size_mb}m,mode=0777"
        command = ["mount", "-t", "tmpfs", "-o", options, "ekiden-small-disk", folder]
        if os.geteuid() != 0 or subprocess.run(command, capture_output=True).returncode != 0:
            pytest.skip("a small file system can only be mounted by root")
        try:
            yield SmallDisk(Path(folder))
        finally:
            subprocess.run(["umount", "--lazy", folder], check=True)
