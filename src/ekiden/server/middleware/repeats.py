"""Executes a POST request with an `Idempotency-Key` only once, for all routes."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Final

from starlette.datastructures import Headers
from starlette.requests import HTTPConnection
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ekiden.core.errors import EkidenError, StaleDocument
from ekiden.core.errors.server import IdempotencyConflict, RequestInvalid
from ekiden.core.values import loads
from ekiden.server.access import EACH_TIME, caller_of, service_of
from ekiden.server.idempotency import (
    LEASE_S,
    Reservation,
    StoredAnswer,
    Ticket,
    reserve,
    ticket_for,
)
from ekiden.server.problems import refuse, state_of
from ekiden.storage.base import Store

_log = logging.getLogger("ekiden.server")

_UNDER: Final = ("/api/v1/", "/v1/")
BY_ROUTE: Final = frozenset({"/api/v1/runs"})
"""Routes that handle the key themselves, with `start_once`, which stores the key with the run."""
_KEPT_HEADERS: Final = frozenset(
    {b"content-type", b"location", b"etag", b"cache-control", b"x-ekiden-session", b"x-ekiden-run"}
)
_SESSION_HEADER: Final = b"x-ekiden-session"
_SESSION_PATH: Final = re.compile(r"/api/v1/sessions/([^/]+)(?:/|$)")
_MAX_ANSWER: Final = 5_000_000


class Repeats:
    """Stores responses, and returns them for repeated requests."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Execute the request, unless it was executed before."""
        if (
            scope["type"] != "http"
            or scope["method"] != "POST"
            or not scope["path"].startswith(_UNDER)
            or scope["path"] in EACH_TIME
        ):
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        given = headers.getlist("idempotency-key")
        if not given:
            await self._app(scope, receive, send)
            return
        try:
            if len(given) > 1:
                raise RequestInvalid("Idempotency-Key was given more than once")
            ticket, store = await self._ticket(scope, headers, given[0])
            # These routes store the key with their own effect, in one transaction; see
            # `start_once`.
            if scope["path"] in BY_ROUTE:
                state_of(scope)["ticket"] = ticket
                await self._app(scope, receive, send)
                return
            found = await reserve(store, ticket)
        except EkidenError as exc:
            await refuse(scope, receive, send, exc)
            return
        if isinstance(found, StoredAnswer):
            if found.body is None:
                await refuse(scope, receive, send, _not_kept(found))
                return
            await _again(found)(scope, receive, send)
            return
        await self._do(found, scope, receive, send)

    async def _ticket(self, scope: Scope, headers: Headers, key: str) -> tuple[Ticket, Store]:
        connection = HTTPConnection(scope)
        caller = await caller_of(connection)
        desk = await service_of(connection).tenant_service(caller.tenant)
        ticket = ticket_for(
            key,
            caller=caller.id,
            path=scope["path"],
            query=scope.get("query_string", b""),
            media_type=headers.get("content-type", ""),
            body=state_of(scope)["body"],
        )
        return ticket, desk.store

    async def _do(
        self, reservation: Reservation, scope: Scope, receive: Receive, send: Send
    ) -> None:
        kept = _Kept(send)
        try:
            async with _renewed(reservation):
                await self._app(scope, receive, kept)
        finally:
            answer = kept.answer()
            with suppress(EkidenError):
                if answer is not None:
                    await reservation.finish(answer, kept.session_id(scope["path"]))
                # A refused request may be sent again. A request that broke off after its response
                # began may have had an effect: its reservation expires instead.
                elif not kept.is_begun or kept.status >= 300:
                    await reservation.give_up()
        # Sent after it is stored: a client that has the response gets the same one on a repeat.
        await kept.flush()


class _Kept:
    """Holds a response back until it is stored; of a stream only the last piece."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._start: Message | None = None
        self._pieces: list[bytes] = []
        self._size = 0
        self._last: Message | None = None
        self._streams = False
        self.status = 0

    @property
    def is_begun(self) -> bool:
        """Whether the response has begun."""
        return self._start is not None

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._start = message
            self.status = message["status"]
            self._streams = any(
                name.lower() == b"content-type" and value.startswith(b"text/event-stream")
                for name, value in message.get("headers") or ()
            )
            if self._streams:
                await self._send(message)
        elif message["type"] == "http.response.body":
            await self._take(message)
        else:
            await self._send(message)

    async def _take(self, message: Message) -> None:
        piece = message.get("body", b"")
        self._size += len(piece)
        # A stream that is too long is not stored, so its pieces need not be held.
        if self._size <= _MAX_ANSWER or not self._streams:
            self._pieces.append(piece)
        if not message.get("more_body", False):
            self._last = message
        elif self._streams:
            await self._send(message)

    def answer(self) -> StoredAnswer | None:
        """The response to store; `None` if the request failed.

        For a stream that was cut off, or is too long, only the fact that it was executed is stored.
        """
        if self._start is None or not 200 <= self.status < 300:
            return None
        if self._last is None and not self._streams:
            return None
        headers = [
            (name.decode("latin-1"), value.decode("latin-1"))
            for name, value in self._start.get("headers") or ()
            if name.lower() in _KEPT_HEADERS
        ]
        is_complete = self._last is not None and self._size <= _MAX_ANSWER
        body = b"".join(self._pieces) if is_complete else None
        return StoredAnswer(status=self.status, headers=headers, body=body)

    def session_id(self, path: str) -> str | None:
        """The session that the response is about, if any: from its headers, its body, or `path`."""
        headers = {} if self._start is None else dict(self._start.get("headers") or ())
        named: dict[bytes, str] = {
            name.lower(): value.decode("latin-1") for name, value in headers.items()
        }
        if found := named.get(_SESSION_HEADER) or _in_address(named.get(b"location", "")):
            return found
        if not self._streams and named.get(b"content-type", "").startswith("application/json"):
            value = loads(b"".join(self._pieces))
            session_id = value.get("session_id") if isinstance(value, dict) else None
            if isinstance(session_id, str):
                return session_id
        return _in_address(path)

    async def flush(self) -> None:
        """Send the response that was held back."""
        if self._last is None or self._start is None:
            return
        if self._streams:
            await self._send(self._last)
            return
        await self._send(self._start)
        body = b"".join(self._pieces)
        await self._send({"type": "http.response.body", "body": body, "more_body": False})


def _in_address(address: str) -> str | None:
    found = _SESSION_PATH.match(address)
    return None if found is None else found[1]


@asynccontextmanager
async def _renewed(reservation: Reservation) -> AsyncIterator[None]:
    """Renew the reservation during the body."""
    over = asyncio.Event()

    async def keep() -> None:
        while not over.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(LEASE_S / 3):
                    await over.wait()
            if not over.is_set():
                await reservation.renew()

    keeping = asyncio.create_task(keep())
    try:
        yield
    finally:
        over.set()
        try:
            await keeping
        except StaleDocument:
            _log.warning(
                "a request took longer than its lease, and was executed again by another process"
            )
        except EkidenError as exc:
            _log.warning("a reservation could not be renewed: %s", exc.code)


def _not_kept(answer: StoredAnswer) -> IdempotencyConflict:
    run_id = dict(answer.headers).get("x-ekiden-run")
    where = f": read run {run_id} instead" if run_id else ""
    return IdempotencyConflict(
        "this request was executed before, and its response was cut off or too long to be "
        f"stored{where}"
    )


def _again(answer: StoredAnswer) -> Response:
    headers = dict(answer.headers)
    headers["Idempotency-Replayed"] = "true"
    return Response(answer.body, answer.status, headers=headers)
