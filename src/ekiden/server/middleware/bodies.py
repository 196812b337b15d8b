"""Reads bodies once, up to a limit, as strict JSON, and refuses unknown query parameters.

The application gets only UTF-8 and unambiguous JSON: no duplicate keys, no NaN, no infinite
numbers, no lone surrogates, no deep nesting. This middleware reports faults as errors of the
caller, so that the application never gets them. Unknown query parameters are refused, because a
misspelled filter that is ignored would give wrong results.
"""

from __future__ import annotations

import asyncio
import json
import math
import re
from collections.abc import Iterator
from typing import Any, Final, NoReturn
from urllib.parse import parse_qsl

from fastapi.dependencies.models import Dependant
from fastapi.routing import RouteContext, iter_route_contexts
from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect
from starlette.routing import Match
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ekiden.core.errors import EkidenError
from ekiden.core.errors.server import (
    NotServed,
    RequestInvalid,
    RequestTooLarge,
    ServerBusy,
    UnknownParameter,
)
from ekiden.core.values import is_too_deep
from ekiden.server.access import LOGIN
from ekiden.server.configuration import ServerConfig
from ekiden.server.problems import MARK, answer, problem_response, refuse, state_of

MAX_DEPTH: Final = 100
"""The maximum nesting of lists and objects."""
BODY_S: Final = 60.0
"""The number of seconds that a body may take to arrive."""
LOGIN_S: Final = 10.0
"""The number of seconds that the body of a login may take. It is short, because the caller has no
key yet and must not hold a connection for long."""
LARGE: Final = 100_000
"""JSON of at least this size, in bytes, is parsed in a thread, so that other requests are not
blocked."""
MAX_LOGIN: Final = 4096
"""The maximum size of a login body, in bytes. It is the only body that is read before the caller is
known."""
MAX_HELD: Final = 512_000_000
"""The maximum size of all bodies that are in memory at the same time, in bytes."""

_WITH_BODY = frozenset({"POST", "PUT", "PATCH", "DELETE"})
_JSON = re.compile(r"application/(?:[\w.+-]+\+)?json", re.IGNORECASE | re.ASCII)
_A2A = re.compile(r"/a2a(?:/|$)")
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_CONTROL_QUERY = re.compile(rb"%00|[\x00-\x20\x7f]")


class Bodies:
    """Reads the body, checks it, and passes it on as one piece."""

    def __init__(self, app: ASGIApp, config: ServerConfig) -> None:
        self._app = app
        self._limit = config.max_body
        self.held = 0
        """Bytes of bodies in memory."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check the body, then serve the request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        held = _Held(self)
        try:
            await self._checked(held, scope, receive, send)
        finally:
            self.held -= held.size

    async def _checked(self, held: _Held, scope: Scope, receive: Receive, send: Send) -> None:
        body = b""
        try:
            _check_address(scope)
            headers = Headers(scope=scope)
            limit = self._limit_of(scope)
            _check_length(headers, limit)
            if scope["method"] in _WITH_BODY:
                _check_coding(headers)
                async with asyncio.timeout(LOGIN_S if scope["path"] == LOGIN else BODY_S):
                    body = await self._read(receive, held, limit)
                if body and _is_json(scope, headers):
                    await _check(body)
        except TimeoutError:
            slow = problem_response(408, RequestInvalid.code, "the body took too long to arrive")
            await answer(scope, receive, send, slow)
            return
        except EkidenError as exc:
            await refuse(scope, receive, send, exc)
            return
        state_of(scope)["body"] = body
        if scope["method"] in _WITH_BODY:
            receive = _Again(body, receive)
        await self._app(scope, receive, send)

    def _limit_of(self, scope: Scope) -> int:
        return min(MAX_LOGIN, self._limit) if scope["path"] == LOGIN else self._limit

    async def _read(self, receive: Receive, held: _Held, limit: int) -> bytes:
        pieces: list[bytes] = []
        more = True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise ClientDisconnect
            pieces.append(message.get("body", b""))
            held.add(len(pieces[-1]))
            if held.size > limit:
                raise RequestTooLarge(limit)
            if self.held > MAX_HELD:
                raise ServerBusy("too many bytes are being sent at once")
            more = message.get("more_body", False)
        return b"".join(pieces)


class _Held:
    """The bytes that one request holds, counted in the total."""

    __slots__ = ("_all", "size")

    def __init__(self, bodies: Bodies) -> None:
        self._all = bodies
        self.size = 0

    def add(self, size: int) -> None:
        self.size += size
        self._all.held += size


class _Again:
    """Gives the body as one message, then the messages of the connection."""

    __slots__ = ("_body", "_receive")

    def __init__(self, body: bytes, receive: Receive) -> None:
        self._body: bytes | None = body
        self._receive = receive

    async def __call__(self) -> Message:
        if self._body is None:
            return await self._receive()
        body, self._body = self._body, None
        return {"type": "http.request", "body": body, "more_body": False}


def _is_json(scope: Scope, headers: Headers) -> bool:
    """Whether the body is parsed as JSON: A2A's own code does so for any type."""
    kind = headers.get("content-type", "")
    return _JSON.match(kind) is not None or _A2A.match(scope["path"]) is not None


async def _check(body: bytes) -> None:
    if len(body) < LARGE:
        check_json(body)
    else:
        await asyncio.to_thread(check_json, body)


def check_json(body: bytes) -> Any:
    """The value of strict JSON. Raises `RequestInvalid` for any other text."""
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError as exc:
        raise RequestInvalid(f"the body is not UTF-8 at byte {exc.start}") from exc
    try:
        value = _DECODER.decode(text)
    except RecursionError as exc:
        raise _too_deep() from exc
    except json.JSONDecodeError as exc:
        raise RequestInvalid(
            f"the body is not JSON: {exc.msg} at line {exc.lineno}, column {exc.colno}"
        ) from exc
    except ValueError as exc:
        problem = exc.args[0] if isinstance(exc, _NotStrict) else "a number has too many digits"
        raise RequestInvalid(f"the body is not strict JSON: {problem}") from exc
    if is_too_deep(value, MAX_DEPTH):
        raise _too_deep()
    if _SURROGATE.search(body) and _has_half_character(value):
        raise RequestInvalid("the body has a lone surrogate")
    return value


class _NotStrict(ValueError):
    """Something that Python's parser accepts but that is not strict JSON."""


def _constant(name: str) -> NoReturn:
    raise _NotStrict(f"{name} is not a number in JSON")


def _number(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise _NotStrict("a number is too large")
    return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise _NotStrict(f"the key {key[:60]!r} comes twice in an object")
            seen.add(key)
    return value


_DECODER = json.JSONDecoder(
    parse_constant=_constant, parse_float=_number, object_pairs_hook=_object
)


def _has_half_character(value: Any) -> bool:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return True
    return False


def _too_deep() -> RequestInvalid:
    return RequestInvalid(f"the body is nested deeper than {MAX_DEPTH} lists and objects")


def _check_length(headers: Headers, limit: int) -> None:
    lengths = headers.getlist("content-length")
    if not lengths:
        return
    length = lengths[0]
    if len(set(lengths)) > 1 or not length.isascii() or not length.isdigit():
        raise RequestInvalid("Content-Length is not a number")
    if len(length) > 15 or int(length) > limit:
        raise RequestTooLarge(limit)


def _check_coding(headers: Headers) -> None:
    if headers.get("content-encoding", "identity").strip().lower() not in ("", "identity"):
        raise RequestInvalid(
            "compressed bodies are not supported: send it without Content-Encoding"
        )


def _check_address(scope: Scope) -> None:
    """Refuse control characters: no name or value here has any."""
    if _CONTROL.search(scope["path"]):
        raise NotServed("nothing is served under an address with control characters in it")
    if _CONTROL_QUERY.search(scope.get("query_string", b"")):
        raise RequestInvalid("the query has a NUL or a control character in it")


def known_query(route: RouteContext) -> frozenset[str] | None:
    """The query parameters that a route accepts. `None` means that it accepts all."""
    marked = getattr(route.endpoint, MARK, ())
    if marked is None:
        return None
    return frozenset((*marked, *_declared(getattr(route, "dependant", None))))


class Queries:
    """Refuses unknown query parameters."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve the request if its route accepts all of its query parameters."""
        query: bytes = scope.get("query_string", b"")
        route = _route(scope) if query else None
        known = None if route is None else known_query(route)
        if known is not None:
            given = parse_qsl(query.decode("latin-1"), keep_blank_values=True)
            unknown = next((name for name, _ in given if name not in known), None)
            if unknown is not None:
                scope["route"] = route  # For the access log.
                await refuse(scope, receive, send, UnknownParameter(unknown, known=known))
                return
        await self._app(scope, receive, send)


def _route(scope: Scope) -> RouteContext | None:
    """The route that will answer. Only the matching router's own routes are searched."""
    for routes in scope["app"].routes:
        if routes.matches(dict(scope))[0] is Match.FULL:
            for route in iter_route_contexts([routes]):
                if route.matches(scope)[0] is Match.FULL:
                    return route
    return None


def _declared(dependant: Dependant | None) -> Iterator[str]:
    if dependant is not None:
        yield from (field.alias for field in dependant.query_params)
        for each in dependant.dependencies:
            yield from _declared(each)
