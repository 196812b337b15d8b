"""The server as a process: its socket, its connections, its signals, and how it starts.

uvicorn waits without limit for the head of a request. So a client that opens many connections and
sends a byte now and then could block other clients. Therefore this server allows ten seconds for a
head. Bodies and idle connections have their own limits.

The routes are loaded with the first request. FastAPI and the routes take longer to load than all
other parts, and a server that only runs sessions does not need them.
"""

from __future__ import annotations

import asyncio
import gc
import signal
import socket
from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING, Any, ClassVar, Final

import uvicorn
from starlette.responses import Response
from starlette.routing import Route, Router
from starlette.types import ASGIApp, Receive, Scope, Send

from ekiden import __version__
from ekiden.core.errors import UserError
from ekiden.core.errors.server import RequestInvalid, RequestTooLarge, ServerBusy
from ekiden.core.values import dumps
from ekiden.project.service import Service
from ekiden.server.configuration import ServerConfig
from ekiden.server.lifespan import Lifespan
from ekiden.server.middleware.access_log import AccessLog, Measuring
from ekiden.server.middleware.admission import Origins


class LazyApplication:
    """An ASGI application that answers `/healthz` itself until the whole application is loaded.

    The whole application is loaded in a thread, so that sessions and `/healthz` are not blocked.
    """

    def __init__(
        self, service: Service, config: ServerConfig, *, loaded: Callable[[], object] | None = None
    ) -> None:
        """`loaded` is called in the thread after the application is loaded."""
        self._parts = Lifespan(service, config)
        self._lifespan = Router(lifespan=lambda _: self._parts.running()).lifespan
        self._health = self._wrapped(_health)
        self._application: ASGIApp | None = None
        self._loading = asyncio.Lock()
        self._loaded = loaded

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._lifespan(scope, receive, send)
        elif self._application is None and _is_health(scope):
            await self._health(scope, receive, send)
        else:
            await (await self._whole())(scope, receive, send)

    async def _whole(self) -> ASGIApp:
        """The application. If loading fails, this request gets an error, and the next one tries
        again."""
        async with self._loading:
            if self._application is None:
                try:
                    self._application = await asyncio.to_thread(self._load)
                except Exception as exc:
                    return self._wrapped(_Failing(exc))
        return self._application

    def _load(self) -> ASGIApp:
        from ekiden.server.application import application

        made = application(self._parts)
        if self._loaded is not None:
            self._loaded()
        return made

    def _wrapped(self, app: ASGIApp) -> ASGIApp:
        """The application in the middleware that needs no routes."""
        inner = AccessLog(Origins(app, self._parts.config))
        return Measuring(inner, self._parts.metrics)


def _is_health(scope: Scope) -> bool:
    return bool(
        scope["type"] == "http"
        and scope["path"] == _ROUTE.path
        and scope["method"] == "GET"
        and not scope["query_string"]
    )


async def _health(scope: Scope, receive: Receive, send: Send) -> None:
    """The same response as that of the route, which is not loaded yet."""
    scope["route"] = _ROUTE
    body = dumps({"status": "ok", "version": __version__})
    await Response(body, media_type="application/json")(scope, receive, send)


_ROUTE = Route("/healthz", _health)


class _Failing:
    def __init__(self, error: Exception) -> None:
        self._error = error

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        raise self._error


if TYPE_CHECKING:
    from uvicorn.protocols.http.h11_impl import H11Protocol as _Protocol
else:
    try:
        from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol as _Protocol
    except ImportError:  # httptools has no wheel for some platforms.
        from uvicorn.protocols.http.h11_impl import H11Protocol as _Protocol

GRACE_S = 3.0
"""The number of seconds in which requests may end after the server is stopped. After that, runs
have the same time."""

_BACKLOG = 2048

HEAD_S: Final = 10.0
"""The number of seconds that a connection may take to send the head of a request."""
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
    """A connection with a time limit for the head of a request. See `prompt_protocol`."""

    most: ClassVar[int]
    head_s: ClassVar[float]
    _late: asyncio.TimerHandle | None = None
    _head_bytes = 0
    _is_upgraded = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the time limit of the first head. If there are too many connections, close this
        one."""
        super().connection_made(transport)
        if len(self.connections) > self.most:
            transport.write(
                _refusal(503, ServerBusy.code, "too many open connections; try again soon")
            )
            transport.close()
        else:
            self._wait()

    def data_received(self, data: bytes) -> None:
        """Stop the time limit when the head is complete."""
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
        """Pass the connection to the WebSocket protocol, and stop the time limit."""
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
    """The protocol class for uvicorn, which allows at most `most` connections, and `head_s` seconds
    for the head of a request."""
    return type("PromptProtocol", (Prompt,), {"most": most, "head_s": head_s})


def websocket_protocol() -> type[asyncio.Protocol]:
    """uvicorn's protocol for WebSockets, whose shutdown does not fail if a client disconnects
    meanwhile."""
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
    """`wanted`, or a lower number if the limit of open files requires it."""
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
    """Serves until a signal. It then ends streams at once. So streams do not delay the shutdown,
    and clients reconnect to another server."""

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
        """Start the server, and report this. A signal ends a start that waits, for example for the
        database."""
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
        """Stop the server. After a second Ctrl-C, the server stops without waiting. Unlike in
        uvicorn, the signal is not raised again at the end."""
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
    # Objects that are loaded at the start live as long as the process: the collector may skip them.
    app = LazyApplication(service, config, loaded=gc.freeze)
    server = Listening(app, service, config, lambda: ready(url_of(listener)))
    await server.serve(sockets=[listener])
    if not server.started and not server.should_exit:
        raise UserError("the server could not start; its log says why")
