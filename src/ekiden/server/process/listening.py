"""The server as a process: its socket, its signals, and its end."""

from __future__ import annotations

import signal
import socket
from collections.abc import Callable
from types import FrameType

import uvicorn
from fastapi import FastAPI

from ekiden.app.service import Service
from ekiden.core.errors import UserError
from ekiden.server.process.promptness import connections_allowed, prompt_protocol

GRACE_S = 3.0
"""How long requests may take to end once the server stops; then runs have as long again."""

_BACKLOG = 2048


def listen(host: str, port: int) -> socket.socket:
    """A socket that takes connections; `UserError` if it cannot be had."""
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
    """Where the server is reached."""
    host, port = listener.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


class Listening(uvicorn.Server):
    """Serves until a signal says to stop; then streams end at once, so that they do not hold up
    the rest, and clients go on elsewhere."""

    def __init__(self, app: FastAPI, service: Service, ready: Callable[[], None]) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                http=prompt_protocol(most=connections_allowed(app.state.config.max_connections)),
                lifespan="on",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                # Proxies keep idle connections for a minute: whoever closes one first must be they,
                # or a request that is just being sent is lost.
                timeout_keep_alive=75,
                timeout_graceful_shutdown=round(GRACE_S),
                ws_max_size=1_000_000,
                ws_ping_interval=20,
                ws_ping_timeout=20,
                h11_max_incomplete_event_size=64 * 1024,
            )
        )
        self._service = service
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin, and say so."""
        await super().startup(sockets)
        if self.started:
            self._ready()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Stop; a second Ctrl-C does not wait. The signal has done its work then: it is not
        raised again at the end."""
        if self.should_exit and sig == signal.SIGINT:
            self.force_exit = True
        self.should_exit = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Take nothing new, end the streams, then wait for what is under way."""
        await self._service.end_streams()
        await super().shutdown(sockets)


async def run_server(
    app: FastAPI,
    service: Service,
    listener: socket.socket,
    *,
    ready: Callable[[str], None] = lambda url: None,
) -> None:
    """Serve until SIGTERM or SIGINT; `ready` is told the address once requests are welcome."""
    server = Listening(app, service, lambda: ready(url_of(listener)))
    await server.serve(sockets=[listener])
    if not server.started:
        raise UserError("the server could not start; its log says why")
