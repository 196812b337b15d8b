"""A defect that is planted on purpose, and the copy of the project that it is planted in."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Literal

ROOT = Path(__file__).resolve().parents[2]
_COPIED = ("src", "tests", "pyproject.toml")
_PLANTED = count(1)

Area = Literal[
    "fencing", "leases", "memo", "idempotency", "handoff", "rollback", "settling", "inbox",
    "wakes", "audit", "outbox", "doubt", "unknown", "conclusion", "versions",
    "approvals", "contract",
]  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutation:
    """One defect."""

    name: str
    area: Area
    file: str
    """Below ``src/ekiden``."""
    text: str
    """What is there once, and is replaced."""
    replacement: str
    why: str
    """What goes wrong with it."""
    tests: tuple[str, ...]
    """Arguments of pytest: those that are to catch it, few and fast."""

    def path(self, root: Path) -> Path:
        """The file in the project at `root`."""
        return root / "src" / "ekiden" / self.file

    def problem(self, root: Path = ROOT) -> str | None:
        """Why it cannot be planted; `None` if it can."""
        path = self.path(root)
        if not path.exists():
            return f"{self.name}: there is no file {self.file}"
        times = path.read_text("utf-8").count(self.text)
        if times != 1:
            return f"{self.name}: its text is {times} times in {self.file}, not once"
        return None

    @contextmanager
    def planted(self, root: Path) -> Iterator[None]:
        """The project at `root` has the defect during the body."""
        path = self.path(root)
        sound, times = path.read_text("utf-8"), path.stat()
        path.write_text(sound.replace(self.text, self.replacement), "utf-8")
        # Bytecode is used again if the size and the second of the source are the same: each defect
        # gets a second of its own, and the sound file its old one.
        os.utime(path, (times.st_atime, times.st_mtime + next(_PLANTED)))
        try:
            yield
        finally:
            path.write_text(sound, "utf-8")
            os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


def copy_project(folder: Path) -> None:
    """A copy in which defects can be planted; no other test sees them."""
    for name in _COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy2(source, folder / name)
