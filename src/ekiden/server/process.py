"""The server as a process: its socket, its connections, its signals, and its child processes.

uvicorn waits without limit for the head of a request, so a client that opens many connections and
sends a byte now and then would keep others out. Here a head has ten seconds. Bodies have their own
limit, and so do idle connections.

With `--processes N` several servers share one socket; `--reload` restarts one after changes. The
parent only holds the socket and passes it on, so that new connections wait during a restart instead
of being refused. A dead process is replaced; the others resume its sessions when their leases
expire.
"""

from __future__ import annotations

import asyncio
import gc
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
from typing import TYPE_CHECKING, Any, ClassVar, Final

import uvicorn
from starlette.types import ASGIApp

from ekiden.core.errors import UserError
from ekiden.core.errors.server import RequestInvalid, RequestTooLarge, ServerBusy
from ekiden.project.service import Service
from ekiden.server.configuration import ServerConfig
from ekiden.server.lazy_application import LazyApplication

if TYPE_CHECKING:
    from uvicorn.protocols.http.h11_impl import H11Protocol as _Protocol
else:
    try:
        from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol as _Protocol
    except ImportError:  # httptools has no wheel for some platforms.
        from uvicorn.protocols.http.h11_impl import H11Protocol as _Protocol

GRACE_S = 3.0
"""How long requests may take to end once the server stops; then runs have as long again."""

_BACKLOG = 2048

HEAD_S: Final = 10.0
"""How long a connection may take to send the head of a request."""
_LEAST: Final = 64
_LONGEST_HEAD: Final = 64 * 1024


def _refusal(status: int, code: str, problem: str) -> bytes:
    """The response to a request that does not reach the application, as a problem."""
    # Imported here, because a server listens before it loads its application.
    from ekiden.server.problems import problem_response, title_of

    answer = problem_response(status, code, problem)
    head = b"".join(b"%b: %b\r\n" % each for each in answer.raw_headers)
    line = f"HTTP/1.1 {status} {title_of(status)}\r\nconnection: close\r\n"
    return line.encode() + head + b"\r\n" + bytes(answer.body)


class Prompt(_Protocol):
    """One connection that limits the time for a request's head. See `prompt_protocol`."""

    most: ClassVar[int]
    head_s: ClassVar[float]
    _late: asyncio.TimerHandle | None = None
    _head_bytes = 0
    _is_upgraded = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the time limit of the first head; a connection above the limit is closed."""
        super().connection_made(transport)
        if len(self.connections) > self.most:
            transport.write(
                _refusal(503, ServerBusy.code, "too many open connections; try again soon")
            )
            transport.close()
        else:
            self._wait()

    def data_received(self, data: bytes) -> None:
        """Stop the time limit once the head is complete."""
        if self._lacks_head:
            self._head_bytes += len(data)
        super().data_received(data)
        if self._is_upgraded or self.transport.is_closing() or not self._lacks_head:
            self._wait_no_more()
            self._head_bytes = 0
        elif self._head_bytes > _LONGEST_HEAD:  # h11 has this limit itself, httptools does not.
            if self.cycle is None:
                problem = f"the head of the request is longer than {_LONGEST_HEAD} bytes"
                self.transport.write(_refusal(431, RequestTooLarge.code, problem))
            self.transport.close()
        elif self._late is None:
            self._wait()

    def send_400_response(self, msg: str) -> None:
        """Refuse data that is not HTTP, or an address that is too long for the parser."""
        problem = (
            f"the request is not HTTP, or its address and headers exceed {_LONGEST_HEAD} bytes"
        )
        if self._lacks_head:  # Otherwise this would be in the middle of another response.
            self.transport.write(_refusal(400, RequestInvalid.code, problem))
        self.transport.close()

    def handle_websocket_upgrade(self, *request: Any) -> None:
        """Hand the connection to the WebSocket protocol; the time limit ends."""
        self._is_upgraded = True
        super().handle_websocket_upgrade(*request)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the time limit."""
        self._wait_no_more()
        super().connection_lost(exc)

    @property
    def _lacks_head(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def _wait(self) -> None:
        self._late = self.loop.call_later(self.head_s, self._is_late)

    def _wait_no_more(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def _is_late(self) -> None:
        self._late = None
        if not self._is_upgraded and self._lacks_head:
            self.transport.close()


def prompt_protocol(*, most: int, head_s: float = HEAD_S) -> type[Prompt]:
    """The protocol class for uvicorn: at most `most` connections, and `head_s` seconds for the head
    of a request."""
    return type("PromptProtocol", (Prompt,), {"most": most, "head_s": head_s})


def websocket_protocol() -> type[asyncio.Protocol]:
    """uvicorn's protocol for WebSockets. Its shutdown survives clients that leave meanwhile."""
    from uvicorn.protocols.websockets.auto import AutoWebSocketsProtocol
    from websockets.exceptions import InvalidState

    base: Any = AutoWebSocketsProtocol

    class WebSocket(base):  # type: ignore[misc]
        def shutdown(self) -> None:
            # uvicorn sends a close frame also if the client has just sent its own. The exception
            # would end the shutdown before all other connections are closed.
            try:
                super().shutdown()
            except InvalidState:
                self.transport.close()

    return WebSocket


def connections_allowed(wanted: int) -> int:
    """`wanted`, or as many as the limit of open files allows."""
    try:
        import resource
    except ImportError:  # Windows
        return wanted
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return wanted
    return min(wanted, max(_LEAST, soft - max(_LEAST, soft // 8)))


def listen(host: str, port: int) -> socket.socket:
    """A listening socket. Raises `UserError` if the address cannot be used."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(_BACKLOG)
    except (OSError, OverflowError) as exc:
        listener.close()
        reason = exc.strerror if isinstance(exc, OSError) and exc.strerror else exc
        raise UserError(
            f"cannot listen on {host}:{port}: {reason}; name another with --host and --port"
        ) from exc
    return listener


def taken_over(number: int) -> socket.socket:
    """A socket that another process opened for this one."""
    try:
        return socket.socket(fileno=number)
    except OSError as exc:
        raise UserError(f"there is no socket with the number {number}: {exc.strerror}") from exc


def url_of(listener: socket.socket) -> str:
    """The URL of the server."""
    host, port = listener.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


class Listening(uvicorn.Server):
    """Serves until a signal; then ends streams at once, so that they do not delay the shutdown and
    clients reconnect to another server."""

    def __init__(
        self, app: ASGIApp, service: Service, config: ServerConfig, ready: Callable[[], None]
    ) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                http=prompt_protocol(most=connections_allowed(config.max_connections)),
                ws=websocket_protocol(),
                lifespan="on",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                # Longer than the minute for which proxies keep idle connections: if the server
                # closed first, a request that is just being sent would be lost.
                timeout_keep_alive=75,
                timeout_graceful_shutdown=round(GRACE_S),
                ws_max_size=1_000_000,
                ws_ping_interval=20,
                ws_ping_timeout=20,
                h11_max_incomplete_event_size=_LONGEST_HEAD,
            )
        )
        self._service = service
        self._ready = ready
        self._starting: asyncio.Task[Any] | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, and report it. A signal ends a start that waits, for example for the database."""
        self._starting = task = asyncio.current_task()
        try:
            await super().startup(sockets)
        except asyncio.CancelledError:
            if task is None or not self.should_exit:
                raise
            task.uncancel()
        finally:
            self._starting = None
        if self.started:
            self._ready()

    def _end_start(self) -> None:
        if self._starting is not None:
            self._starting.cancel()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Stop; a second Ctrl-C does not wait. Unlike in uvicorn, the signal is not raised again
        at the end."""
        if self.should_exit and sig == signal.SIGINT:
            self.force_exit = True
        self.should_exit = True
        if self._starting is not None:
            # A signal handler runs between two instructions of any task: `threadsafe` wakes the
            # loop, which may be waiting.
            self._starting.get_loop().call_soon_threadsafe(self._end_start)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept no new requests, end the streams, then wait for current requests."""
        await self._service.end_streams()
        await super().shutdown(sockets)


async def run_server(
    service: Service,
    config: ServerConfig,
    listener: socket.socket,
    *,
    ready: Callable[[str], None] = lambda url: None,
) -> None:
    """Serve until SIGTERM or SIGINT. `ready` is called with the address when the server accepts
    requests."""
    app = LazyApplication(service, config, loaded=gc.freeze)
    server = Listening(app, service, config, lambda: ready(url_of(listener)))
    await server.serve(sockets=[listener])
    if not server.started and not server.should_exit:
        raise UserError("the server could not start; its log says why")


_CHILD_GRACE_S = 15.0
"""How long child processes may take to end."""
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
    """The child reports on it that it serves; its end tells the child that the parent died."""


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
    """Runs the server as a child process, and restarts it after each change."""

    def __init__(self, command: Sequence[str], root: Path, *, socket_number: int) -> None:
        self._command = [*command, "--socket", str(socket_number)]
        self._root = root
        self._socket = socket_number
        self._is_stopping = False

    def run(self, tell: Callable[[str], None]) -> int:
        """Run until SIGTERM or SIGINT, and return the exit code of the last server."""
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
        """Wait for a change, and return the changed file; `None` if it is time to stop.

        A server that could not start is restarted after the next change, too.
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
    """The command of this process; `-P` keeps modules of the current folder out."""
    return [sys.executable, "-P", "-m", "ekiden.cli", *arguments]
