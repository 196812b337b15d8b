"""`ekiden serve --processes N`: several server processes that share one socket and one store.

The parent holds the socket and does nothing else. A process that dies is replaced; its sessions are
taken over by the others as soon as their leases have run out.
"""

from __future__ import annotations

import asyncio
import os
import select
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import FrameType

_GRACE_S = 15.0
"""How long the processes may take to end."""
_SHORT_LIFE_S = 5.0
"""A process that dies sooner is not replaced before so many seconds have passed."""
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
    """Starts `count` processes of a command, and keeps so many alive."""

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
