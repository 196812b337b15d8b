"""Server and worker processes: preparation, signals, the end, and child processes.

With `--processes N`, several server processes share one socket. With `--reload`, the server process
is restarted after changes. The parent process only holds the socket and passes it on. So new
connections wait during a restart instead of being refused. A dead process is replaced, and other
processes resume its sessions when the leases expire.
"""

from __future__ import annotations

import asyncio
import gc
import os
import re
import secrets
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import wraps
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryFile
from types import FrameType
from typing import TYPE_CHECKING, Any, Literal, ParamSpec

from ekiden.core.errors import UserError

if TYPE_CHECKING:
    from ekiden.project.settings import Settings
    from ekiden.project.worker import Workforce
    from ekiden.server import ServerConfig

_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_LEAVING_S = 5.0
"""How long cancelled work may take to end; afterwards its leases must expire."""
_TASKS_S = 1.0
_THREADS_S = 1.0
"""How long tasks, and then threads, may take to end."""
_LOOK_EVERY_S = 0.02

_TOKEN = re.compile(r"[A-Za-z0-9_-]{20,200}", re.ASCII)


def check_installed() -> None:
    """`UserError` if the packages of the server are not installed."""
    missing = [
        name for name in ("fastapi", "uvicorn", "prometheus_client") if find_spec(name) is None
    ]
    if missing:
        raise UserError(f"the server needs {', '.join(missing)}: pip install 'ekiden[server]'")


def person_token(file: Path | None) -> str:
    """The token of people: the content of the file, which is created if it does not exist, or a new
    token if no file is given. Only the user of this process can read a created file."""
    token = secrets.token_urlsafe(32)
    if file is None:
        return token
    try:
        with suppress(FileExistsError):
            number = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with open(number, "w", encoding="ascii") as created:
                created.write(f"{token}\n")
        found = file.read_text("utf-8").strip()
    except (OSError, ValueError) as exc:
        raise UserError(f"the token in {file} cannot be used: {exc}") from exc
    if not _TOKEN.fullmatch(found):
        raise UserError(
            f"the token in {file} must have 20 to 200 letters, digits, - and _; if you delete the "
            "file, the server creates a token"
        )
    return found


@contextmanager
def inheritable_token(token: str) -> Iterator[int]:
    """An open file with the token, which child processes can inherit. It has no name."""
    with TemporaryFile() as file:
        file.write(token.encode())
        file.flush()
        os.set_inheritable(file.fileno(), True)
        yield file.fileno()


def inherited_token(number: int) -> str:
    """The token in a file that the parent process opened."""
    token = os.pread(number, 200, 0).decode()
    os.close(number)
    return token


async def prepared_config(
    settings: Settings, store: str, *, host: str | None, port: int | None, token: str
) -> ServerConfig:
    """The server's configuration: the settings, overridden by the options. It has the token of
    people only if there are callers without a key.

    The store is opened once, so that its errors are reported before anything starts; a database
    that is unreachable is waited for. `ServerExposed` if other machines could call the server
    without a key.
    """
    from ekiden.core.checks.addresses import is_loopback
    from ekiden.engine.store_worker import once_reachable
    from ekiden.project.keys import KeyStore
    from ekiden.project.stores import open_store
    from ekiden.server.authorization import check_exposure
    from ekiden.server.configuration import server_config

    config = server_config(settings, host=host, port=port)

    needs_key = not config.allow_local

    async def check() -> None:
        nonlocal needs_key
        async with open_store(store) as opened:
            keys = KeyStore(opened)
            if not is_loopback(config.host):
                await check_exposure(config, keys)
            needs_key = needs_key or await keys.exist()

    await once_reachable(check, open_store(store).url)
    return config if needs_key else replace(config, person_token=token)


def tell_console(config: ServerConfig, url: str) -> None:
    """Print the address of the console, if this server has it."""
    from ekiden.cli.output import note
    from ekiden.core.checks.addresses import is_any_address
    from ekiden.server.console import TOKEN, has_console

    if not has_console(config):
        return
    if is_any_address(config.host):
        # An address such as 0.0.0.0 cannot be opened in a browser: show a name of the server.
        scheme, _, address = url.partition("://")
        # The setting also allows patterns and networks, which are not names.
        name = next((each for each in config.hosts if not set(each) & {"*", "/"}), "localhost")
        url = (
            f"{scheme}://{name}"
            if ":" in name
            else f"{scheme}://{name}:{address.rpartition(':')[2]}"
        )
    token = "" if config.person_token is None else f"?{TOKEN}={config.person_token}"
    note(f"console {url}/{token}")


def start_logging(form: Literal["text", "json", "none"]) -> None:
    """Send the log of this process to standard error."""
    if form == "none":
        return
    from ekiden.tracing.logs import setup_logging

    setup_logging(format=form)


_Options = ParamSpec("_Options")


def on_fast_loop(command: Callable[_Options, Coroutine[Any, Any, int]]) -> Callable[_Options, int]:
    """Run an async command on uvloop, or on Python's own loop.

    A served run takes a sixth to a third less CPU with uvloop.
    """

    @wraps(command)
    def run(*args: _Options.args, **options: _Options.kwargs) -> int:
        try:
            from uvloop import new_event_loop
        except ImportError:
            return asyncio.run(command(*args, **options))
        with asyncio.Runner(loop_factory=new_event_loop) as runner:
            return runner.run(command(*args, **options))

    return run


def rest_collector() -> None:
    """Exclude the objects of the start from garbage collection, and collect less often: reference
    counting frees nearly everything of a session."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)


async def end_for_sure() -> None:
    """The last call of a command: wait for tasks and threads to end, or end the process without
    them.

    Tasks that ignore cancellation, and threads that keep working, could block the exit. Their work
    is not lost: others take over their sessions when the leases expire.
    """
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    if tasks:
        _, left = await asyncio.wait(tasks, timeout=_TASKS_S)
        if left:
            end_at_once()
    loop = asyncio.get_running_loop()
    # Never cancelled: that would wait for the threads.
    await asyncio.wait({asyncio.create_task(loop.shutdown_default_executor())}, timeout=_THREADS_S)
    deadline = loop.time() + _THREADS_S
    while any(_is_busy(each) for each in threading.enumerate()):
        if loop.time() >= deadline:
            end_at_once()
        await asyncio.sleep(_LOOK_EVERY_S)


def end_at_once() -> None:
    """End the process at once, without cleanup."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(0)


def _is_busy(thread: threading.Thread) -> bool:
    """Whether the interpreter would wait for the thread at exit."""
    return thread.is_alive() and not thread.daemon and thread is not threading.main_thread()


async def run_until_signal(
    workforce: Workforce, *, until_idle: bool, grace_s: float, ready: Callable[[], None]
) -> bool:
    """Work until nothing is left, or until SIGTERM or SIGINT, and return whether it was a signal.

    After a signal it takes no more work. Sessions unfinished after `grace_s` seconds, or at a
    second signal, are cancelled and left ready. If even that hangs, the process is ended.
    """
    signals = asyncio.Queue[None]()
    with on_signals(lambda: signals.put_nowait(None)):
        working = asyncio.create_task(workforce.run(until_idle=until_idle, ready=ready))
        first = asyncio.create_task(signals.get())
        await asyncio.wait({working, first}, return_when=asyncio.FIRST_COMPLETED)
        was_signal = not working.done()
        if was_signal:
            workforce.stop()
            second = asyncio.create_task(signals.get())
            await asyncio.wait(
                {working, second}, timeout=grace_s, return_when=asyncio.FIRST_COMPLETED
            )
            second.cancel()
            working.cancel()
            await asyncio.wait({working}, timeout=_LEAVING_S)
            if not working.done():
                end_at_once()
        first.cancel()
        with suppress(asyncio.CancelledError):
            await working
    return was_signal


@contextmanager
def on_signals(
    call: Callable[[], None], numbers: Sequence[signal.Signals] = _SIGNALS
) -> Iterator[None]:
    """While the body runs, call `call` for each of the signals."""
    loop = asyncio.get_running_loop()
    for number in numbers:
        # Windows has no such handlers, nor has a thread other than the main one.
        with suppress(NotImplementedError, RuntimeError, ValueError):
            loop.add_signal_handler(number, call)
    try:
        yield
    finally:
        for number in numbers:
            with suppress(NotImplementedError, RuntimeError, ValueError):
                loop.remove_signal_handler(number)


# Child processes of `ekiden serve`.

_CHILD_GRACE_S = 15.0
"""How long child processes may take to end."""
_SHORT_LIFE_S = 5.0
"""A process that dies early is replaced only after this many seconds."""
_CHECK_CHILDREN_EVERY_S = 0.2


def announce(number: int) -> None:
    """Report to the parent process, on the socket `number`, that this process serves. If the parent
    dies, stop this process."""
    parent = socket.socket(fileno=number)
    parent.send(b"1")
    loop = asyncio.get_running_loop()

    def end() -> None:
        loop.remove_reader(parent)
        parent.close()
        os.kill(os.getpid(), signal.SIGTERM)

    loop.add_reader(parent, end)


def _with_files(command: Sequence[str], socket_number: int, token_number: int) -> list[str]:
    """The command of a process that inherits these open files."""
    return [*command, "--socket", str(socket_number), "--token-number", str(token_number)]


@dataclass(frozen=True, eq=False, slots=True)
class _Child:
    process: subprocess.Popen[bytes]
    began: float
    channel: socket.socket
    """The child reports on it that it serves; its end tells the child that the parent died."""


class ServerProcesses:
    """Starts `count` processes of a command, and replaces processes that die."""

    def __init__(
        self, command: Sequence[str], count: int, *, socket_number: int, token_number: int
    ) -> None:
        self._command = _with_files(command, socket_number, token_number)
        self._count = count
        self._files = [socket_number, token_number]
        self._running: list[_Child] = []
        self._is_stopping = False

    def run(self, ready: Callable[[], None], tell: Callable[[str], None]) -> int:
        """Serve until SIGTERM or SIGINT. `ready` is called when all processes serve.

        The processes start one after the other, so that a fault in the project is reported only
        once. If a process cannot start, the result is its exit code.
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
                time.sleep(_CHECK_CHILDREN_EVERY_S)
            return 0
        finally:
            self._end()

    def _start(self) -> int | None:
        """Start a process and wait until it serves; its exit code if it ends before."""
        channel, theirs = socket.socketpair()
        with theirs:
            process = subprocess.Popen(
                [*self._command, "--announce", str(theirs.fileno())],
                pass_fds=[*self._files, theirs.fileno()],
            )
        self._running.append(_Child(process, time.monotonic(), channel))
        while not self._is_stopping:
            if select.select([channel], [], [], _CHECK_CHILDREN_EVERY_S)[0]:
                # The end of the channel without a byte means that the process ended.
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
        deadline = time.monotonic() + _CHILD_GRACE_S
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
    """The watched files below `root`, each with a value that changes when the file changes."""
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
    """Runs the server as a child process, and restarts it after each change."""

    def __init__(
        self, command: Sequence[str], root: Path, *, socket_number: int, token_number: int
    ) -> None:
        self._command = _with_files(command, socket_number, token_number)
        self._root = root
        self._files = [socket_number, token_number]
        self._is_stopping = False

    def run(self, tell: Callable[[str], None]) -> int:
        """Run until SIGTERM or SIGINT, and return the exit code of the last server."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._stop)
        while True:
            marks = marks_of(self._root)
            server = subprocess.Popen(self._command, pass_fds=self._files, cwd=self._root)
            changed = self._changed(server, marks)
            if changed is None:
                return self._end(server)
            tell(f"{changed} changed: restarting")
            self._end(server)

    def _changed(
        self, server: subprocess.Popen[bytes], marks: Mapping[str, tuple[int, int]]
    ) -> str | None:
        """Wait for a change, and return the changed file; `None` if it is time to stop.

        A server that could not start is also restarted after the next change.
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
                return server.wait(timeout=_CHILD_GRACE_S)
            except subprocess.TimeoutExpired:
                server.kill()
        return server.wait()

    def _stop(self, number: int, frame: FrameType | None) -> None:
        self._is_stopping = True


def this_command(arguments: Sequence[str]) -> list[str]:
    """The command of this process. The option `-P` prevents imports from the current folder."""
    return [sys.executable, "-P", "-m", "ekiden.cli", *arguments]
