"""`ekiden serve --reload`: a server that is started anew when the project's files change.

The process that watches holds the socket and gives it to each server that it starts, so that
connections made meanwhile wait instead of being refused.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType

_CHECK_FILES_EVERY_S = 0.4
_SUFFIXES = frozenset({".py", ".md", ".toml", ".json", ".jsonc", ".yaml", ".yml"})
_LEFT_OUT = frozenset({"__pycache__", "node_modules", "site-packages", "dist", "build"})
_OURS = frozenset({".ekiden", ".claude"})
_MOST_FILES = 20_000


def marks_of(root: Path) -> Mapping[str, tuple[int, int]]:
    """The files that matter below `root`, with what tells whether they changed."""
    return dict(_marks(root))


def _marks(root: Path) -> Iterator[tuple[str, tuple[int, int]]]:
    count = 0
    for folder, folders, files in os.walk(root):
        folders[:] = [
            name
            for name in folders
            if name not in _LEFT_OUT and (not name.startswith(".") or name in _OURS)
        ]
        for name in files:
            if os.path.splitext(name)[1] not in _SUFFIXES:
                continue
            count += 1
            if count > _MOST_FILES:
                return
            path = os.path.join(folder, name)
            try:
                found = os.stat(path)
            except OSError:
                continue
            yield path, (found.st_mtime_ns, found.st_size)


class Reloader:
    """Starts the server as a process of its own, and anew after each change."""

    def __init__(self, command: Sequence[str], root: Path, *, socket_number: int) -> None:
        self._command = [*command, "--socket", str(socket_number)]
        self._root = root
        self._socket = socket_number
        self._is_stopping = False

    def run(self, tell: Callable[[str], None]) -> int:
        """Until SIGTERM or SIGINT; gives the exit code of the last server."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._stop)
        while True:
            marks = marks_of(self._root)
            server = subprocess.Popen(self._command, pass_fds=[self._socket], cwd=self._root)
            changed = self._changed(server, marks)
            if changed is None:
                return self._end(server)
            tell(f"{changed} changed: restarting")
            self._end(server)

    def _changed(
        self, server: subprocess.Popen[bytes], marks: Mapping[str, tuple[int, int]]
    ) -> str | None:
        """Wait for a change and give the file; `None` if it is time to stop.

        A server that could not start waits for the next change, too.
        """
        while not self._is_stopping:
            time.sleep(_CHECK_FILES_EVERY_S)
            now = marks_of(self._root)
            if now != marks:
                different = sorted(now.items() ^ marks.items())
                return os.path.relpath(different[0][0], self._root)
        return None

    def _end(self, server: subprocess.Popen[bytes]) -> int:
        if server.poll() is None:
            server.terminate()
            try:
                return server.wait(timeout=15)
            except subprocess.TimeoutExpired:
                server.kill()
        return server.wait()

    def _stop(self, number: int, frame: FrameType | None) -> None:
        self._is_stopping = True


def this_command(arguments: Sequence[str]) -> list[str]:
    """How the command of this process is called again, with no module of the current folder."""
    return [sys.executable, "-P", "-m", "ekiden.cli", *arguments]
