"""Caches the learnt data of large teams in the user's cache folder, under a hash of their content.

An invalid file is ignored; the data is learnt again and replaces it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import numpy as np

from ekiden.embeddings.array_file import BAD_FILE, read_arrays, write_arrays
from ekiden.embeddings.cache_folder import cache_folder
from ekiden.routing.meaning.learner import Matrix

MOST_BYTES = 256 * 1024 * 1024
"""The maximum size of all files together. The least recently used files are removed first."""
_SUFFIX = ".index"


def index_folder() -> Path:
    """The folder of these files."""
    return cache_folder("routing")


def read_index(key: str) -> dict[str, Matrix] | None:
    """The stored arrays of a key; `None` if there is no valid file."""
    path = index_folder() / f"{key}{_SUFFIX}"
    try:
        if path.stat().st_size > MOST_BYTES:
            return None
        arrays = read_arrays(path, key).arrays
    except BAD_FILE:
        return None
    with suppress(OSError):
        os.utime(path)
    # The sum is finite only if all numbers are.
    are_numbers = all(
        each.dtype == np.float32 and np.isfinite(each.sum()) for each in arrays.values()
    )
    return arrays if are_numbers else None


def write_index(key: str, arrays: Mapping[str, Matrix]) -> None:
    """Store the arrays atomically in one file. If this is impossible, nothing is stored."""
    if sum(each.nbytes for each in arrays.values()) > MOST_BYTES // 2:
        return
    folder = index_folder()
    with suppress(OSError):
        plain = {name: np.asarray(each, dtype="<f4") for name, each in arrays.items()}
        write_arrays(folder / f"{key}{_SUFFIX}", key, plain)
        _thin_out(folder)


def _thin_out(folder: Path) -> None:
    """Remove the least recently used files, and temporary files of killed processes."""
    found = []
    for entry in os.scandir(folder):
        with suppress(OSError):
            if entry.is_file(follow_symlinks=False) and entry.name.endswith((_SUFFIX, ".part")):
                stat = entry.stat()
                found.append((stat.st_mtime, stat.st_size, entry.path))
    total = 0
    for _, size, path in sorted(found, reverse=True):
        total += size
        if total > MOST_BYTES:
            with suppress(OSError):
                os.unlink(path)
