"""Checks of `Host` and `Origin`: the server's names, and the pages that may call it.

A page on the internet can let its own host name point to this machine (DNS rebinding); a browser
then treats the server as part of that page. So requests for unknown host names are refused, and
requests from pages of other origins, WebSockets included, unless the configuration names them.
"""

from __future__ import annotations

from typing import Final

from starlette.datastructures import Headers
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
from ekiden.core.errors.server import BadOrigin
from ekiden.server.configuration import ServerConfig
from ekiden.server.problems import refuse

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
