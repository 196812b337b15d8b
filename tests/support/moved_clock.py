"""Wall clocks that a test sets while processes look at them."""

from __future__ import annotations

import shutil
import struct
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

_SOURCE = Path(__file__).with_name("moved_clock.c")
HOUR_S = 3600


class MovedClock:
    """The wall clock of the processes that are started with `env`."""

    def __init__(self, folder: Path, library: Path, name: str) -> None:
        """The library is the compiled `moved_clock.c`."""
        self._file = folder / name
        self._file.write_bytes(struct.pack("=q", 0))
        self._file.chmod(0o644)
        self.env = {"LD_PRELOAD": str(library), "EKIDEN_TEST_CLOCK": str(self._file)}

    def jump(self, seconds: int) -> None:
        """Let it differ by so much from the machine's, from now on."""
        with self._file.open("r+b") as file:
            file.write(struct.pack("=q", seconds))


class ClockShop:
    """Makes clocks."""

    def __init__(self, folder: Path, library: Path) -> None:
        self._folder = folder
        self._library = library
        self._made = 0

    def clock(self, seconds: int = 0) -> MovedClock:
        """One that differs by so much at first."""
        self._made += 1
        made = MovedClock(self._folder, self._library, f"clock{self._made}")
        made.jump(seconds)
        return made


def compiled_clock(folder: Path) -> Path:
    """The library, compiled into the folder. Raises `RuntimeError` where that is not possible."""
    compiler = shutil.which("cc")
    if compiler is None:
        raise RuntimeError("to move the clock of a process takes a C compiler")
    library = folder / "moved_clock.so"
    command = [compiler, "-shared", "-fPIC", "-O1", "-o", str(library), str(_SOURCE), "-ldl"]
    made = subprocess.run(command, capture_output=True, text=True)
    if made.returncode != 0:
        raise RuntimeError(f"the clock cannot be compiled here: {made.stderr.strip()[:200]}")
    library.chmod(0o755)
    return library


@contextmanager
def clock_shop() -> Iterator[ClockShop]:
    """For the time of the body; skips the test where nothing can be compiled or preloaded."""
    with tempfile.TemporaryDirectory(prefix="ekiden-clocks-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        try:
            library = compiled_clock(folder)
        except RuntimeError as exc:
            pytest.skip(str(exc))
        yield ClockShop(folder, library)
