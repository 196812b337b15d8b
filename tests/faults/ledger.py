"""What happened in the world outside of the store, written down so that `kill -9` loses nothing."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from ekiden.core.conversation.model import Item, ModelRequest

Line = dict[str, Any]

_CREATED = re.compile(r":[0-9a-f]{12,15}:")


class Ledger:
    """A folder that all processes of a test write to: a list of facts, and effects by their key."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "effects").mkdir(parents=True, exist_ok=True)
        self._lines = folder / "lines.jsonl"
        self._lines.touch()

    def note(self, kind: str, **facts: Any) -> None:
        """Add a line; it is whole, or not there, whenever the process dies."""
        line = json.dumps({"kind": kind, "pid": os.getpid(), **facts}) + "\n"
        file = os.open(self._lines, os.O_WRONLY | os.O_APPEND)
        try:
            os.write(file, line.encode())
        finally:
            os.close(file)

    def lines(self, kind: str, **facts: Any) -> list[Line]:
        """The lines of one kind, in order, of which these facts are true."""
        begin = json.dumps({"kind": kind})[:-1]
        found = [
            json.loads(line)
            for line in self._lines.read_text().splitlines()
            if line.startswith(begin)
        ]
        return [line for line in found if all(line[name] == value for name, value in facts.items())]

    def take_effect(self, key: str, what: str) -> str:
        """A receiver that knows keys: one effect per key, and the same reply to every copy."""
        self.note("attempt", key=key, what=what)
        name = key.replace(":", "=")
        draft = self.folder / f"{name}-{os.getpid()}"
        draft.write_text(what)
        with suppress(FileExistsError):
            os.link(draft, self.folder / "effects" / name)
        return f"{what} is booked"

    def effects(self) -> list[str]:
        """What was done, each as often as it was."""
        return sorted(file.read_text() for file in (self.folder / "effects").iterdir())


def keys_of(lines: Iterable[Line]) -> set[str]:
    """The idempotency keys that the lines name, as `timeless` has them."""
    return {timeless(line["key"]) for line in lines}


def timeless(key: str) -> str:
    """An idempotency key without when its session was made: as it is in every life of the world."""
    return _CREATED.sub(":", key)


def digest(request: ModelRequest) -> str:
    """All that the model was shown, in a few characters: equal if and only if that is equal."""
    shown = [request.instructions, list(request.input), [tool.name for tool in request.tools]]
    return hashlib.sha256(json.dumps(shown, sort_keys=True).encode()).hexdigest()[:12]


def digest_of(item: Item) -> str:
    """One item of a conversation, in a few characters."""
    return hashlib.sha256(json.dumps(item, sort_keys=True).encode()).hexdigest()[:12]
