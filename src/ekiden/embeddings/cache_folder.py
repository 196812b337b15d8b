"""The user's folder for cached data."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path


def cache_folder(name: str) -> Path:
    """The user's folder for cached data, for example ``$XDG_CACHE_HOME/ekiden/routing``."""
    named = os.environ.get("XDG_CACHE_HOME", "")
    if os.path.isabs(named):
        return Path(named, "ekiden", name)
    if sys.platform == "win32" and (local := os.environ.get("LOCALAPPDATA")):
        return Path(local, "ekiden", "Cache", name)
    home = Path(os.path.expanduser("~"))
    cache = home / "Library" / "Caches" if sys.platform == "darwin" else home / ".cache"
    return cache / "ekiden" / name


def write_whole(path: Path, parts: Iterable[bytes | memoryview]) -> None:
    """Write a file atomically: as a temporary file that is then renamed. Raises `OSError`."""
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
