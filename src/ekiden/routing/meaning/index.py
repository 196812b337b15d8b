"""What was learnt of a large team, kept in the user's cache folder under a hash of its content.

A file has a line of JSON that tells names and shapes of arrays, and then their numbers: nothing in
it is run or unpickled. A file that is not exactly as it must be is learnt again and replaced.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np

from ekiden.embeddings.cache_folder import cache_folder, write_whole
from ekiden.routing.meaning.learner import Matrix

MOST_BYTES = 256 * 1024 * 1024
"""Of all files together; those that were not used for longest go first."""
_MOST_HEADER = 64 * 1024
_SUFFIX = ".index"


def index_folder() -> Path:
    """The folder of these files."""
    return cache_folder("routing")


def read_index(key: str) -> dict[str, Matrix] | None:
    """The arrays that were kept under the key; `None` if there are none that can be used."""
    path = index_folder() / f"{key}{_SUFFIX}"
    try:
        if path.stat().st_size > MOST_BYTES:
            return None
        content = path.read_bytes()
        with suppress(OSError):
            os.utime(path)
    except OSError:
        return None
    try:
        return _parsed(content, key)
    except (ValueError, TypeError, KeyError, RecursionError):
        return None


def write_index(key: str, arrays: Mapping[str, Matrix]) -> None:
    """Keep the arrays, as one file that is there whole or not at all; where that cannot be, no."""
    folder = index_folder()
    names = [[name, list(each.shape)] for name, each in arrays.items()]
    numbers = b"".join(
        np.ascontiguousarray(each, dtype="<f4").tobytes() for each in arrays.values()
    )
    header = json.dumps({"key": key, "arrays": names, "crc": crc32(numbers)}).encode()
    if len(header) + len(numbers) > MOST_BYTES // 2:
        return
    with suppress(OSError):
        write_whole(folder / f"{key}{_SUFFIX}", [header + b"\n", numbers])
        _thin_out(folder)


def _parsed(content: bytes, key: str) -> dict[str, Matrix] | None:
    end = content.find(b"\n", 0, _MOST_HEADER)
    if end < 0:
        return None
    header: Any = json.loads(content[:end])
    numbers = memoryview(content)[end + 1 :]
    if header["key"] != key or header["crc"] != crc32(numbers):
        return None
    arrays: dict[str, Matrix] = {}
    start = 0
    for name, shape in header["arrays"]:
        if not isinstance(name, str) or not all(type(each) is int and each >= 0 for each in shape):
            return None
        count = math.prod(shape)
        if start + 4 * count > len(numbers):
            return None
        flat = np.frombuffer(numbers, dtype="<f4", count=count, offset=start)
        if not np.isfinite(flat).all():
            return None
        arrays[name] = flat.reshape(shape)
        start += 4 * count
    return arrays if start == len(numbers) else None


def _thin_out(folder: Path) -> None:
    """Remove the files that were not used for longest, and what a killed process left."""
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
