"""Every path that is not public needs a caller: checked before the body is read and before a
WebSocket is accepted, and again while a stream is open."""

from __future__ import annotations

import time
from typing import Final

from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ekiden.core.errors import EkidenError
from ekiden.core.errors.server import KeyExpired
from ekiden.server.access.access import Authorizer, Caller, caller_of, forget_login, is_open
from ekiden.server.problems import POLICY_VIOLATION, answer, response_of, state_of

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
