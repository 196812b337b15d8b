"""The user's cache folder: files that are written atomically, and files of arrays.

Files of arrays are mapped into memory, and are untrusted data. A file has one line of JSON with
names, types, shapes and checksums, followed by the numbers. No content of a file is executed or
unpickled.
"""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ekiden.core.home import home_folder

if TYPE_CHECKING:
    from numpy.typing import NDArray


def cache_folder(name: str) -> Path:
    """The user's folder for cached data, for example ``$XDG_CACHE_HOME/ekiden/routing``."""
    named = os.environ.get("XDG_CACHE_HOME", "")
    if os.path.isabs(named):
        return Path(named, "ekiden", name)
    if sys.platform == "win32" and (local := os.environ.get("LOCALAPPDATA")):
        return Path(local, "ekiden", "Cache", name)
    home = home_folder()
    if home is None:
        return Path(".ekiden", "cache", name)
    cache = home / "Library" / "Caches" if sys.platform == "darwin" else home / ".cache"
    return cache / "ekiden" / name


def write_whole(path: Path, parts: Iterable[bytes | memoryview]) -> None:
    """Write a file atomically, with a temporary file that is then renamed. Raises `OSError`."""
    import tempfile

    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, suffix=".part")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.writelines(parts)
        os.replace(temporary, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise


def keep_newest(folder: Path, suffix: str, most: int) -> None:
    """Remove all but the last used `most` files with this suffix. Raises `OSError`."""
    found = sorted((each.stat().st_mtime, each) for each in folder.glob(f"*{suffix}"))
    for _, path in found[:-most]:
        path.unlink()


BAD_FILE: Final = (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError)
"""The errors that `read_arrays` raises for a file that is missing, damaged or of another
version."""
_MOST_HEADER: Final = 64 * 1024
_CHECKED: Final = 1 << 25
"""The size up to which arrays have a checksum, because computing it takes time."""
_ALIGNED: Final = 64
_ROW: Final = 512
_TYPES: Final = ("<f4", "<i4", "|u1")


class Arrays(NamedTuple):
    """The content of a file."""

    arrays: dict[str, NDArray[Any]]
    numbers: dict[str, int | float]


def read_arrays(path: Path, key: str) -> Arrays:
    """Read a file that was written with this key. Raises one of `BAD_FILE` for any other file."""
    import mmap

    import numpy as np

    with path.open("rb") as file:
        line = file.readline(_MOST_HEADER)
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    header: Any = json.loads(line)
    numbers: dict[str, int | float] = header["numbers"]
    if header["key"] != key or not all(type(each) in (int, float) for each in numbers.values()):
        raise ValueError("the file is of another version")
    found: dict[str, NDArray[Any]] = {}
    start = len(line)
    for name, kind, shape, checksum in header["arrays"]:
        sizes = all(type(each) is int and each >= 0 for each in shape)
        if not (sizes and isinstance(name, str) and kind in _TYPES):
            raise ValueError("the file is damaged")
        flat = np.frombuffer(mapped, dtype=kind, count=math.prod(shape), offset=start)
        if flat.nbytes <= _CHECKED and checksum != _checksum(flat):
            raise ValueError("the file is damaged")
        found[name] = flat.reshape(shape)
        start += _padded(flat.nbytes)
    if start != len(mapped):
        raise ValueError("the file is damaged")
    return Arrays(found, numbers)


def write_arrays(
    path: Path,
    key: str,
    arrays: Mapping[str, NDArray[Any]],
    numbers: Mapping[str, int | float] | None = None,
) -> None:
    """Write the arrays to a file atomically. Raises `OSError`."""
    import numpy as np

    plain = {name: np.ascontiguousarray(each) for name, each in arrays.items()}
    listed = [
        [name, each.dtype.str, each.shape, _checksum(each) if each.nbytes <= _CHECKED else None]
        for name, each in plain.items()
    ]
    line = json.dumps({"key": key, "numbers": dict(numbers or {}), "arrays": listed}).encode()
    parts = [line.ljust(_padded(len(line) + 1) - 1) + b"\n"]
    parts += (each.tobytes().ljust(_padded(each.nbytes), b"\0") for each in plain.values())
    write_whole(path, parts)


def _checksum(array: NDArray[Any]) -> int:
    """A number that differs if the array is damaged, ten times as fast as a CRC of all bytes.

    It is the CRC of the sums of all rows and of all columns of the bytes, in rows of `_ROW` words.
    """
    from zlib import crc32

    import numpy as np

    data = array.reshape(-1).view(np.uint8)
    whole = len(data) - len(data) % (8 * _ROW)
    words = data[:whole].view(np.uint64).reshape(-1, _ROW)
    found = crc32(data[whole:].data)
    for axis in (0, 1):
        found = crc32(words.sum(axis=axis, dtype=np.uint64).data, found)
    return found


def _padded(size: int) -> int:
    """The size rounded up, so that every array is aligned for fast access."""
    return -(-size // _ALIGNED) * _ALIGNED
