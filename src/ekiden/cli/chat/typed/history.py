"""The history of typed lines, in a private file."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from prompt_toolkit.history import History

from ekiden.core.values import dumps, loads

FILE_NAME = "chat_history"
_LONGEST = 20_000
"""Longest entry in characters; longer ones are not stored."""
_MOST_BYTES = 50_000_000
_SECRET = re.compile(
    r"(?i)(?:api[_-]?key|passw(?:or)?d|secret|token|authorization)\w*[\"']?\s*[=:]\s*\S{6,}"
    r"|\bbearer\s+\S{12,}|\b(?:sk|pk|ghp|gho|xox[abp])[-_][A-Za-z0-9_-]{12,}"
)
"""Matches pasted secrets."""


class PrivateHistory(History):
    """A history in a file that only its owner may read, of at most `limit` entries.

    Entries that begin with a space, look like a secret or are very long are not stored. If the file
    cannot be read or written, only the history of earlier chats is lost.
    """

    def __init__(self, path: Path, *, limit: int = 1000) -> None:
        super().__init__()
        self._path = path
        self.limit = limit

    def keep(self, limit: int) -> None:
        """Keep this many entries from now on; with 0 none, not even those already read."""
        self.limit = limit
        if not limit:
            self._loaded_strings.clear()

    def load_history_strings(self) -> Iterable[str]:
        """Newest first."""
        entries = self._stored()
        if len(entries) > 2 * self.limit:
            self._shorten(entries[-self.limit :])
        return list(reversed(entries[-self.limit :])) if self.limit else []

    def append_string(self, string: str) -> None:
        """Remember for this chat, and for later ones if the text may be stored."""
        if is_memorable(string):
            super().append_string(string)

    def store_string(self, string: str) -> None:
        if not self.limit:
            return
        with suppress(OSError):
            self._path.parent.mkdir(mode=0o700, exist_ok=True)
            self._write(f"{dumps(string)}\n", os.O_APPEND)

    def _stored(self) -> list[str]:
        try:
            with self._path.open("rb") as file:
                lines = file.read(_MOST_BYTES).decode("utf-8", "replace").splitlines()
        except OSError:
            return []
        return [entry for entry in map(_entry, lines) if entry is not None]

    def _shorten(self, entries: list[str]) -> None:
        """Replace the entries, atomically: a crash leaves the old or the new file."""
        fresh = self._path.with_name(f"{self._path.name}.{os.getpid()}")
        with suppress(OSError):
            text = "".join(f"{dumps(entry)}\n" for entry in entries)
            self._write(text, os.O_TRUNC, fresh)
            fresh.replace(self._path)

    def _write(self, text: str, flags: int, path: Path | None = None) -> None:
        flags |= os.O_WRONLY | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
        descriptor = os.open(path or self._path, flags, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            if hasattr(os, "fchmod"):
                os.fchmod(descriptor, 0o600)
            file.write(text.encode("utf-8", "backslashreplace"))


def is_memorable(text: str) -> bool:
    """Whether a text may be stored."""
    return not (text.startswith(" ") or len(text) > _LONGEST or _SECRET.search(text))


def _entry(line: str) -> str | None:
    try:
        entry = loads(line)
    except ValueError:
        return None
    return entry if isinstance(entry, str) else None
