"""Admits requests for a host name of this server and with a known caller, up to a limit at a
time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from starlette.datastructures import Headers
from starlette.requests import HTTPConnection
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ekiden.core.checks.addresses import (
    HostName,
    PageOrigin,
    is_any_address,
    origin_text,
    parse_host,
    parse_origin,
    read_hosts,
    read_origins,
)
from ekiden.core.errors import EkidenError
from ekiden.core.errors.server import BadOrigin, KeyExpired, ServerBusy, TooManyRequests
from ekiden.server.access import Authorizer, Caller, caller_of, forget_login, is_open
from ekiden.server.configuration import ServerConfig
from ekiden.server.problems import POLICY_VIOLATION, answer, refuse, response_of, state_of

RECHECK_S: Final = 5.0
"""The minimum interval between two checks of an open stream's key."""


class Authentication:
    """Identifies the caller of every request to a path that is not public."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve the request if its caller is known."""
        if scope["type"] not in ("http", "websocket") or is_open(scope):
            await self._app(scope, receive, send)
            return
        connection = HTTPConnection(scope)
        try:
            caller = await caller_of(connection)
        except EkidenError as exc:
            response = response_of(exc)
            if state_of(scope).get("is_cookie_bad"):
                forget_login(response, connection.headers)
            await answer(scope, receive, send, response)
            return
        watched = _Watched(send, connection.app.state.gate, caller)
        try:
            await self._app(scope, receive, watched)
        except OSError:
            if not watched.is_cut:
                raise


class _Watched:
    """Sends messages, and cuts the stream as soon as the caller's key is no longer valid."""

    __slots__ = ("_caller", "_checked", "_gate", "_send", "is_cut")

    def __init__(self, send: Send, gate: Authorizer, caller: Caller) -> None:
        self._send = send
        self._gate = gate
        self._caller = caller
        self._checked = time.monotonic()
        self.is_cut = False

    async def __call__(self, message: Message) -> None:
        if self.is_cut:
            raise OSError("the stream was cut")
        if time.monotonic() - self._checked >= RECHECK_S and _goes_on(message):
            try:
                await self._gate.recheck(self._caller)
            except KeyExpired:
                await self._cut(message)
            except EkidenError:
                pass  # The store does not answer; the next message checks again.
            else:
                self._checked = time.monotonic()
        await self._send(message)

    async def _cut(self, message: Message) -> None:
        self.is_cut = True
        if message["type"] == "websocket.send":
            await self._send({"type": "websocket.close", "code": POLICY_VIOLATION})
        else:
            await self._send({"type": "http.response.body", "body": b"", "more_body": False})
        raise OSError("the key is no longer valid")


def _goes_on(message: Message) -> bool:
    if message["type"] == "http.response.body":
        return bool(message.get("more_body"))
    return bool(message["type"] == "websocket.send")


_STREAM = "text/event-stream"


PROBES: Final = frozenset({"/healthz", "/readyz"})
"""Health checks are always answered, even at the limit."""


class RequestRoom:
    """Counts requests. Streams and WebSockets stay open for long, so they are counted
    separately."""

    def __init__(
        self, *, most_requests: int, most_streams: int, refusal: Callable[[], EkidenError]
    ) -> None:
        self._most_requests = most_requests
        self._most_streams = most_streams
        self.refusal = refusal
        """Makes the error for a request above the limit."""
        self.requests = 0
        self.streams = 0

    @property
    def is_empty(self) -> bool:
        """Whether there are no current requests."""
        return self.requests == self.streams == 0

    async def serve(self, app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve the request, unless the limit is reached."""
        place = _Place(self, scope, receive, send)
        if not place.enter():
            await refuse(scope, receive, send, self.refusal())
            return
        try:
            await app(scope, receive, place)
        except OSError:
            # Raised by `_Place` to stop the application after the refusal was sent; see below.
            if not place.is_refused:
                raise
        finally:
            place.leave()

    def has_room(self, *, stream: bool) -> bool:
        """Whether the limit allows one more request."""
        if stream:
            return self.streams < self._most_streams
        return self.requests < self._most_requests


class ConcurrencyLimit(RequestRoom):
    """The limit of all requests together."""

    def __init__(self, app: ASGIApp, config: ServerConfig) -> None:
        super().__init__(
            most_requests=config.max_requests, most_streams=config.max_streams, refusal=ServerBusy
        )
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve the request, unless the limit is reached."""
        # Probes are always answered: otherwise a busy server would be restarted as dead.
        if scope["type"] not in ("http", "websocket") or _is_probe(scope):
            await self._app(scope, receive, send)
        else:
            await self.serve(self._app, scope, receive, send)


class Shares:
    """A limit for each key. Callers without a key have no such limit."""

    def __init__(self, app: ASGIApp, config: ServerConfig) -> None:
        self._app = app
        self._requests = config.key_requests
        self._streams = config.key_streams
        self._rooms: dict[str, RequestRoom] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve the request, unless the caller's key has reached its limit."""
        known = scope["type"] in ("http", "websocket")
        caller: Caller | None = state_of(scope).get("caller") if known else None
        if caller is None or caller.key_id is None:
            await self._app(scope, receive, send)
            return
        room = self._rooms.setdefault(caller.key_id, self._room())
        try:
            await room.serve(self._app, scope, receive, send)
        finally:
            # Without this, every key that was ever used would stay in memory.
            if room.is_empty:
                self._rooms.pop(caller.key_id, None)

    def _room(self) -> RequestRoom:
        return RequestRoom(
            most_requests=self._requests, most_streams=self._streams, refusal=_too_many
        )


def _too_many() -> TooManyRequests:
    return TooManyRequests(
        "this key has reached its number of concurrent requests", retry_after_s=2
    )


def _is_probe(scope: Scope) -> bool:
    return (
        scope["type"] == "http" and scope["method"] in ("GET", "HEAD") and scope["path"] in PROBES
    )


class _Place:
    """The slot of one request: it counts as a request first, and as a stream once the response is
    one."""

    __slots__ = ("_receive", "_room", "_scope", "_send", "_stream", "is_refused")

    def __init__(self, room: RequestRoom, scope: Scope, receive: Receive, send: Send) -> None:
        self._room = room
        self._scope = scope
        self._receive = receive
        self._send = send
        accept = Headers(scope=scope).get("accept", "")
        self._stream = scope["type"] == "websocket" or _STREAM in accept
        self.is_refused = False

    def enter(self) -> bool:
        if not self._room.has_room(stream=self._stream):
            return False
        self._count(1)
        return True

    def leave(self) -> None:
        self._count(-1)

    async def __call__(self, message: Message) -> None:
        if self.is_refused:
            return
        if message["type"] == "http.response.start" and not self._stream and _is_stream(message):
            if not self._room.has_room(stream=True):
                self.is_refused = True
                await refuse(self._scope, self._receive, self._send, self._room.refusal())
                # An application that writes to a closed connection gets an OSError as well, and
                # cleans up.
                raise OSError("no more streams are served")
            self._count(-1)
            self._stream = True
            self._count(1)
        await self._send(message)

    def _count(self, by: int) -> None:
        if self._stream:
            self._room.streams += by
        else:
            self._room.requests += by


def _is_stream(message: Message) -> bool:
    return any(
        name.lower() == b"content-type" and value.startswith(_STREAM.encode())
        for name, value in message.get("headers") or ()
    )


# `Host` and `Origin`: the server's names, and the pages that may call it. A page on the internet
# can let its own host name point to this machine (DNS rebinding); a browser then treats the server
# as part of that page. So requests for unknown host names are refused, and requests from pages of
# other origins, WebSockets included, unless the configuration names them.

_ANY_NAME: Final = frozenset({"/healthz", "/readyz"})
"""Health checks, which load balancers call by address; they reveal nothing."""

_METHODS: Final = "GET, HEAD, POST, PUT, PATCH, DELETE"
_HEADERS: Final = (
    "Authorization, X-API-Key, Content-Type, Accept, Idempotency-Key, If-Match, If-None-Match, "
    "Last-Event-ID, X-Request-Id"
)
_EXPOSED: Final = (
    "ETag, Location, Retry-After, X-Request-Id, Idempotency-Replayed, X-Ekiden-Session, "
    "X-Ekiden-Run"
)
_MAX_AGE_S: Final = 600


class Origins:
    """Checks `Host` and `Origin`, and answers preflight requests of browsers."""

    def __init__(self, app: ASGIApp, config: ServerConfig) -> None:
        self._app = app
        self._hosts = read_hosts(config.hosts)
        own = parse_host(f"[{config.host}]" if ":" in config.host else config.host)
        self._own_name = None if own is None or is_any_address(config.host) else own.name
        self._origins = read_origins(config.origins)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve the request if its host and origin are allowed."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        try:
            foreign = self._checked(scope, headers)
        except BadOrigin as exc:
            await refuse(scope, receive, send, exc)
            return
        if foreign is None:
            await self._app(scope, receive, send)
        elif scope.get("method") == "OPTIONS" and "access-control-request-method" in headers:
            await _preflight(foreign)(scope, receive, send)
        else:
            await self._app(scope, receive, _Allowing(send, foreign))

    def _checked(self, scope: Scope, headers: Headers) -> str | None:
        """The origin of a page that the configuration allows; `None` for other callers.
        `BadOrigin` if the host is unknown or the page may not call."""
        names = headers.getlist("host")
        host = parse_host(names[0]) if len(names) == 1 else None
        if scope["path"] not in _ANY_NAME and not self._knows(host):
            raise BadOrigin(
                "the server does not have this host name: use localhost, or add the name to "
                "server.hosts"
            )
        given = headers.getlist("origin")
        if not given:
            if _is_from_foreign_page(headers):
                raise _foreign()
            return None
        origin = parse_origin(given[0]) if len(given) == 1 else None
        if origin is None:
            raise _foreign()
        return self._known_origin(origin, host)

    def _knows(self, host: HostName | None) -> bool:
        if host is None:
            return False
        return host.is_loopback or host.name == self._own_name or host in self._hosts

    def _known_origin(self, origin: PageOrigin, host: HostName | None) -> str | None:
        text = origin_text(origin)
        if text in self._origins:
            return text
        if host is not None and origin.is_at(host):
            return None
        raise _foreign()


class _Allowing:
    """Sends the response with headers that allow the page to read it."""

    __slots__ = ("_origin", "_send")

    def __init__(self, send: Send, origin: str) -> None:
        self._send = send
        self._origin = origin

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = [
                *(message.get("headers") or ()),
                (b"access-control-allow-origin", self._origin.encode()),
                (b"access-control-expose-headers", _EXPOSED.encode()),
                (b"vary", b"Origin"),
            ]
            message = {**message, "headers": headers}
        await self._send(message)


def _preflight(origin: str) -> Response:
    return Response(
        status_code=204,
        headers={
            "Access-Control-Allow-Origin": origin,
            "Access-Control-Allow-Methods": _METHODS,
            "Access-Control-Allow-Headers": _HEADERS,
            "Access-Control-Max-Age": str(_MAX_AGE_S),
            "Vary": "Origin",
        },
    )


def _is_from_foreign_page(headers: Headers) -> bool:
    """Whether a browser reports that another site's page sends this, other than by a link."""
    site, mode = headers.get("sec-fetch-site"), headers.get("sec-fetch-mode")
    return site in ("cross-site", "same-site") and mode != "navigate"


def _foreign() -> BadOrigin:
    return BadOrigin("pages of this origin may not call: add the origin to server.origins")
