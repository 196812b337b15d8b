"""The folders that the user trusts, each with the content that it had then."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from ekiden.core.errors import TrustNotStored
from ekiden.core.values import dumps, loads
from ekiden.project.settings.files import locked, replace_file, settings_files

FILE = "trusted.json"
_VERSION = 1
_CONTENTS = 20
"""So many contents of one folder are kept, the newest: to change branches asks nothing again."""
_PATIENCE_S = 10.0

_Folders: TypeAlias = dict[str, dict[str, float]]
"""By folder the hashes of its contents, each with the time of the yes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrustedFolder:
    """A folder that was trusted."""

    folder: str
    hashes: Mapping[str, float]
    """Of its contents, each with the time, in seconds since 1970."""


class TrustedFolders:
    """The user's list, ``~/.ekiden/trusted.json``; a folder is known by its real path.

    A file that cannot be understood trusts nothing, and is replaced by the next yes.
    """

    def __init__(self, home: Path | None = None) -> None:
        user = settings_files(home=home).user
        self._path = None if user is None else Path(os.path.realpath(user.with_name(FILE)))

    def has(self, folder: Path, content: str) -> bool:
        """Whether the folder is trusted with this content."""
        return content in self._read().get(os.path.realpath(folder), {})

    def add(self, folder: Path, content: str) -> None:
        """Trust the folder with this content; `TrustNotStored` if that cannot be written."""

        def added(folders: _Folders) -> None:
            known = folders.pop(os.path.realpath(folder), {})
            known.pop(content, None)
            newest = [*known.items(), (content, time.time())][-_CONTENTS:]
            folders[os.path.realpath(folder)] = dict(newest)

        self._change(added)

    def remove(self, folder: Path) -> bool:
        """Whether the folder was trusted, whatever its content; it is no more."""
        name = os.path.realpath(folder)
        if name not in self._read():
            return False
        self._change(lambda folders: folders.pop(name, None))
        return True

    def all(self) -> list[TrustedFolder]:
        """Every trusted folder, by its path."""
        return [
            TrustedFolder(folder=name, hashes=each) for name, each in sorted(self._read().items())
        ]

    def _change(self, change: Callable[[_Folders], object]) -> None:
        path = self._path
        if path is None:
            raise TrustNotStored("the home folder is unknown; set HOME")
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with locked(path, patience_s=_PATIENCE_S):
                folders = self._read()
                change(folders)
                if path.exists():
                    os.chmod(path, 0o600)
                replace_file(path, dumps({"version": _VERSION, "folders": folders}).encode())
        except TimeoutError as exc:
            raise TrustNotStored(
                f"another process has been changing {path} for {_PATIENCE_S:g} s; try again"
            ) from exc
        except OSError as exc:
            raise TrustNotStored(f"cannot write {path}: {exc.strerror or exc}") from exc

    def _read(self) -> _Folders:
        if self._path is None:
            return {}
        try:
            found = loads(self._path.read_bytes())
        except FileNotFoundError:
            return {}
        except OSError as exc:
            raise TrustNotStored(f"cannot read {self._path}: {exc.strerror or exc}") from exc
        except ValueError:
            return {}
        version = found.get("version") if isinstance(found, dict) else None
        if isinstance(version, int) and version > _VERSION:
            raise TrustNotStored(f"a newer Ekiden wrote {self._path}: update this one")
        return _checked(found) if version == _VERSION else {}


def _is_time(value: object) -> bool:
    return isinstance(value, int | float) and 0 <= value < 1e11


def _checked(found: dict[str, Any]) -> _Folders:
    folders = found.get("folders")
    if not isinstance(folders, dict):
        return {}
    return {
        name: {each: float(at) for each, at in known.items() if _is_time(at)}
        for name, known in folders.items()
        if isinstance(known, dict)
    }
