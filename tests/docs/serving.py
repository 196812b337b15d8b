"""Servers that a page starts, with ``$ ekiden serve … &``, and the ports that they really have.

Pages say ``127.0.0.1:8321``. Several of them run at the same time, so each gets ports of its own:
what a page says is translated before it is run, and what was printed is translated back.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tests.support.forked import ForkedPopen

PORTS_VARIABLE = "DOCS_PORTS"
"""Tells the processes that a page starts which ports of this machine they may call."""
DEFAULT_PORT = 8321

_PATIENCE_S = 240
_READY = re.compile(r'serving on |^\{"url"', re.MULTILINE)
_PORT = re.compile(r"(?P<before>127\.0\.0\.1:|localhost:|--port )(?P<port>83\d\d)\b")
_allowed: set[int] = set()


def is_allowed(port: object) -> bool:
    """Whether a page of this process may call the port."""
    return port in _allowed


def guarded(connect: Callable[..., Any], refuse: Callable[..., None]) -> Callable[..., Any]:
    """`socket.socket.connect` that reaches the page's own servers only."""

    def guard(self: socket.socket, address: Any) -> Any:
        if self.family == socket.AF_INET and address[0] == "127.0.0.1" and is_allowed(address[1]):
            return connect(self, address)
        return refuse(address)

    return guard


def guarded_lookup(lookup: Callable[..., Any], refuse: Callable[..., None]) -> Callable[..., Any]:
    """`socket.getaddrinfo` that finds the page's own servers only."""

    def guard(host: Any, port: Any, *more: Any, **options: Any) -> Any:
        if host == "127.0.0.1" and is_allowed(port):
            return lookup(host, port, *more, **options)
        return refuse(host, port)

    return guard


class Servers:
    """Those of one page; `close` ends them."""

    def __init__(self) -> None:
        self._held: dict[int, socket.socket] = {}
        """By the port on the page: one that is taken, and only bound, so that a server can be
        started there, and again."""
        self._running: list[_Server] = []

    @property
    def ports(self) -> str:
        """The real ones, for the environment."""
        return ",".join(str(self.port(shown)) for shown in self._held)

    def port(self, shown: int) -> int:
        """The real port of one that the page names."""
        if shown not in self._held:
            self._held[shown] = holder = socket.socket()
            holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            holder.bind(("127.0.0.1", 0))
            _allowed.add(holder.getsockname()[1])
        return int(self._held[shown].getsockname()[1])

    def real(self, text: str) -> str:
        """What the page says, with the ports that there are."""
        return _PORT.sub(lambda found: found["before"] + str(self.port(int(found["port"]))), text)

    def shown(self, text: str) -> str:
        """What was printed, with the ports that the page says."""
        for shown in self._held:
            text = re.sub(rf"\b{self.port(shown)}\b", str(shown), text)
        return text

    def start(self, command: str, *, folder: Path, env: Mapping[str, str]) -> str:
        """Start a server and give what it said until it was ready, or until it ended."""
        environment = {**env, "EKIDEN_PORT": str(self.port(DEFAULT_PORT))}
        self._running.append(_Server(self.real(command), folder, environment))
        return self.shown(self._running[-1].said())

    def stop(self, number: int, how: signal.Signals) -> None:
        """Send a signal to the server of this number, from 1, and wait for its end."""
        self._running[number - 1].stop(how)

    def close(self) -> None:
        """End what runs still."""
        for server in self._running:
            server.stop(signal.SIGTERM)
        for holder in self._held.values():
            _allowed.discard(holder.getsockname()[1])
            holder.close()


class _Server:
    def __init__(self, command: str, folder: Path, env: Mapping[str, str]) -> None:
        words = shlex.split(command)
        assert words[:2] == ["ekiden", "serve"], f"only servers stay in the background: {command}"
        self._lines: list[str] = []
        self._is_ready = threading.Event()
        self._process = ForkedPopen(
            [sys.executable, "-m", "ekiden.cli", *words[1:]],
            cwd=folder,
            env={**os.environ, **env},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
        )
        self._reading = threading.Thread(target=self._read, daemon=True)
        self._reading.start()

    def _read(self) -> None:
        """All of it, to its end: a server whose log nobody reads stands still."""
        assert self._process.stdout is not None
        with self._process.stdout as out:
            for line in out:
                if not self._is_ready.is_set():
                    self._lines.append(line)
                if _READY.search(line):
                    self._is_ready.set()
        self._is_ready.set()

    def said(self) -> str:
        assert self._is_ready.wait(_PATIENCE_S), "the server is not ready"
        return "".join(self._lines)

    def stop(self, how: signal.Signals) -> None:
        if self._process.poll() is None:
            self._process.send_signal(how)
        try:
            self._process.wait(_PATIENCE_S)
        finally:
            if self._process.poll() is None:
                self._process.kill()
                self._process.wait()
            self._reading.join()
