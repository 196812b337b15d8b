"""The outermost middleware: request ids, the access log, safe headers, and request metrics.

A log line has method, route template, status, time and the prefix of the key. It contains no values
from the address and no part of the conversation.
"""

from __future__ import annotations

import logging
import re
import time
from typing import Any, Final

from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ekiden.core.values import new_id
from ekiden.server.access import Caller
from ekiden.server.metrics import Metrics
from ekiden.server.problems import answer, header, problem_response, state_of
from ekiden.tracing.logs import log_fields

_log = logging.getLogger("ekiden.server")
_access = logging.getLogger("ekiden.access")

REQUEST_ID: Final = "x-request-id"
_ID = re.compile(r"[A-Za-z0-9._:@-]{1,128}", re.ASCII)

GONE: Final = 499
"""The status in the log if the client disconnected before the response."""

_SAFE: Final = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"DENY"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
)
"""Headers of every response that does not set them itself."""

_STARTS = frozenset({"http.response.start", "websocket.http.response.start", "websocket.accept"})


class AccessLog:
    """Logs every request, and turns unexpected exceptions into problems."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve the request, and log it."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        sent = _Logged(send, request_id_of(scope))
        state_of(scope)["request_id"] = sent.request_id
        with log_fields(request_id=sent.request_id):
            await self._serve(scope, receive, sent)

    async def _serve(self, scope: Scope, receive: Receive, sent: _Logged) -> None:
        began = time.perf_counter()
        try:
            await self._app(scope, receive, sent)
        except ClientDisconnect:
            pass
        except Exception:
            if sent.status is not None:
                raise
            _log.exception("a request failed: %s %s", method_of(scope), route_of(scope))
            detail = "a defect in Ekiden; the server's log has details"
            response = problem_response(500, "server.internal", detail)
            await answer(scope, receive, sent, response)
        finally:
            _log_request(scope, sent, (time.perf_counter() - began) * 1000)


class _Logged:
    """Sends messages, adds headers, and remembers the status."""

    __slots__ = ("_send", "request_id", "status")

    def __init__(self, send: Send, request_id: str) -> None:
        self._send = send
        self.request_id = request_id
        self.status: int | None = None

    async def __call__(self, message: Message) -> None:
        kind = message["type"]
        if kind in _STARTS:
            self.status = message.get("status", 101)
            headers = list(message.get("headers") or ())
            present = {name.lower() for name, _ in headers}
            headers.append((REQUEST_ID.encode(), self.request_id.encode()))
            if kind != "websocket.accept":
                headers += [each for each in _SAFE if each[0] not in present]
            message = {**message, "headers": headers}
        elif kind == "websocket.close" and self.status is None:
            self.status = 403
        await self._send(message)


def request_id_of(scope: Scope) -> str:
    """The request id from the caller if it has a safe form, otherwise a new id."""
    given = header(scope, REQUEST_ID)
    return given if given is not None and _ID.fullmatch(given) else new_id("req")


def method_of(scope: Scope) -> str:
    """The HTTP method, or ``WEBSOCKET``. The result is ``?`` for a text that is no method."""
    if scope["type"] == "websocket":
        return "WEBSOCKET"
    method: str = scope["method"]
    return method if method.isalpha() and len(method) <= 10 else "?"


_MOUNTED = ("/a2a", "/mcp", "/.well-known/agent-card.json")
"""Paths of other standards; paths below them are logged and counted as these."""


def route_of(scope: Scope) -> str:
    """The route's template, such as ``/api/v1/runs/{run_id}``; ``-`` if the path has no route."""
    effective = (scope.get("fastapi") or {}).get("effective_route_context")
    for each in (effective, scope.get("route")):
        path: Any = getattr(each, "path_format", None) or getattr(each, "path", None)
        if isinstance(path, str) and path not in _MOUNTED:
            return path
    asked = scope.get("path", "")
    for mounted in _MOUNTED:
        if asked == mounted or asked.startswith(f"{mounted}/"):
            return mounted
    return "-"


def _log_request(scope: Scope, sent: _Logged, elapsed_ms: float) -> None:
    if not _access.isEnabledFor(logging.INFO):
        return
    caller: Caller | None = state_of(scope).get("caller")
    facts: dict[str, Any] = {
        "method": method_of(scope),
        "route": route_of(scope),
        "status": GONE if sent.status is None else sent.status,
        "ms": round(elapsed_ms, 1),
        "key": "-" if caller is None else caller.id,
        "request_id": sent.request_id,
    }
    line = (facts["method"], facts["route"], facts["status"])
    _access.info("%s %s %s", *line, extra=facts)


class Measuring:
    """Counts every HTTP request. WebSockets are counted elsewhere, as connections."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve the request, and count it when its response begins."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = time.perf_counter()
        is_counted = False

        def count(status: int) -> None:
            nonlocal is_counted
            is_counted = True
            route = route_of(scope)
            self._metrics.http_request(
                method=scope["method"],
                route=None if route == "-" else route,
                status=status,
                seconds=time.perf_counter() - began,
            )

        async def counted(message: Message) -> None:
            if message["type"] == "http.response.start":
                count(message["status"])
            await send(message)

        try:
            await self._app(scope, receive, counted)
        except Exception:
            if not is_counted:
                count(500)
            raise
        if not is_counted:
            count(GONE)
