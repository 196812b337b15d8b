"""Exports of the audit as files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from ekiden.cli.errors import UsageError


@contextmanager
def new_file(path: Path) -> Iterator[TextIO]:
    """A file to write an export to; `UsageError` if it is there already or cannot be written."""
    try:
        with path.open("x", encoding="utf-8", newline="\n") as file:
            yield file
    except OSError as exc:
        raise UsageError(f"cannot write {path}: {exc.strerror}; name another file") from exc


@contextmanager
def export_lines(path: Path) -> Iterator[Iterable[str]]:
    """The lines of an export, whatever bytes are in it; `UsageError` if it cannot be read."""
    try:
        with path.open(encoding="utf-8", errors="surrogateescape", newline="") as file:
            yield file
    except OSError as exc:
        raise UsageError(f"cannot read {path}: {exc.strerror}; name the file of an export") from exc
