"""Server processes of `--processes N`, which share one socket, and restarts of `--reload`.

The parent only holds the socket and passes it to each server, so that new connections wait during a
restart instead of being refused. With `--processes` a dead process is replaced, and the others
resume its sessions when their leases expire.
"""

from __future__ import annotations

import asyncio
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

_GRACE_S = 15.0
"""How long the processes may take to end."""
_SHORT_LIFE_S = 5.0
"""A process that dies early is replaced only after this many seconds."""
_LOOK_EVERY_S = 0.2


def announce(number: int) -> None:
    """Report to the parent, on the socket `number`, that this process serves; stop if it dies."""
    parent = socket.socket(fileno=number)
    parent.send(b"1")
    loop = asyncio.get_running_loop()

    def end() -> None:
        loop.remove_reader(parent)
        parent.close()
        os.kill(os.getpid(), signal.SIGTERM)

    loop.add_reader(parent, end)


@dataclass(frozen=True, eq=False, slots=True)
class _Child:
    process: subprocess.Popen[bytes]
    began: float
    channel: socket.socket
    """The child reports on it that it serves, and sees by its end that the parent died."""


class ServerProcesses:
    """Starts `count` processes of a command, and replaces those that die."""

    def __init__(self, command: Sequence[str], count: int, *, socket_number: int) -> None:
        self._command = [*command, "--socket", str(socket_number)]
        self._count = count
        self._socket = socket_number
        self._running: list[_Child] = []
        self._is_stopping = False

    def run(self, ready: Callable[[], None], tell: Callable[[str], None]) -> int:
        """Serve until SIGTERM or SIGINT; `ready` is called when all processes serve.

        They start one after the other, so that a fault in the project is reported once; the exit
        code of a process that cannot start is the result.
        """
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._stop)
        try:
            for _ in range(self._count):
                if (failed := self._start()) is not None:
                    return failed
                if self._is_stopping:
                    return 0
            ready()
            while not self._is_stopping:
                self._replace(tell)
                time.sleep(_LOOK_EVERY_S)
            return 0
        finally:
            self._end()

    def _start(self) -> int | None:
        """Start a process and wait until it serves; its exit code if it ends before."""
        channel, theirs = socket.socketpair()
        with theirs:
            process = subprocess.Popen(
                [*self._command, "--announce", str(theirs.fileno())],
                pass_fds=[self._socket, theirs.fileno()],
            )
        self._running.append(_Child(process, time.monotonic(), channel))
        while not self._is_stopping:
            if select.select([channel], [], [], _LOOK_EVERY_S)[0]:
                # A channel that is closed without a byte was that of a process which ended.
                return None if channel.recv(1) else process.wait()
        return None

    def _replace(self, tell: Callable[[str], None]) -> None:
        for child in list(self._running):
            code = child.process.poll()
            if code is None or time.monotonic() - child.began < _SHORT_LIFE_S:
                continue
            self._running.remove(child)
            child.channel.close()
            tell(f"server process {child.process.pid} ended with {code}: starting another")
            self._start()

    def _end(self) -> None:
        for child in self._running:
            child.process.terminate()
        deadline = time.monotonic() + _GRACE_S
        for child in self._running:
            try:
                child.process.wait(timeout=max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                child.process.kill()
                child.process.wait()
            child.channel.close()

    def _stop(self, number: int, frame: FrameType | None) -> None:
        self._is_stopping = True


_CHECK_FILES_EVERY_S = 0.4
_SUFFIXES = frozenset({".py", ".md", ".toml", ".json", ".jsonc", ".yaml", ".yml"})
_LEFT_OUT = frozenset({"__pycache__", "node_modules", "site-packages", "dist", "build"})
_OURS = frozenset({".ekiden", ".claude"})
_MOST_FILES = 20_000


def marks_of(root: Path) -> Mapping[str, tuple[int, int]]:
    """The watched files below `root`, each with a mark that changes with the file."""
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
        """Run until SIGTERM or SIGINT; returns the exit code of the last server."""
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
