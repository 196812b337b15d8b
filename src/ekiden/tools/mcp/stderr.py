"""The last lines that a server wrote to its standard error."""

from __future__ import annotations

import os
import threading
from typing import TextIO

from ekiden.tools.text import without_hidden

_MAX_KEPT = 8_192
_MAX_LINES = 8
_MAX_LINE = 300


class StderrTail:
    """A pipe whose writing end is given to a process; what comes out is kept as far as it matters.

    A thread reads it: whatever the process writes, it never waits for us.
    """

    def __init__(self) -> None:
        self._reading, writing = os.pipe()
        self.file: TextIO = os.fdopen(writing, "w")
        self._kept = bytearray()
        self._thread = threading.Thread(target=self._read, name="ekiden-mcp-stderr", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Give up the writing end; the process has its own."""
        self.file.close()

    def lines(self, *, wait_s: float = 0.0) -> str:
        """The last lines, once everybody has closed the pipe or the time is up."""
        self._thread.join(wait_s)
        text = without_hidden(bytes(self._kept).decode(errors="replace"))
        lines = [line.rstrip()[:_MAX_LINE] for line in text.splitlines() if line.strip()]
        return "\n".join(lines[-_MAX_LINES:])

    def _read(self) -> None:
        with os.fdopen(self._reading, "rb", buffering=0) as pipe:
            while data := pipe.read(4096):
                self._kept += data
                del self._kept[:-_MAX_KEPT]
