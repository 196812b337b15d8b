"""Refuses requests and WebSockets before the application sees them."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any

from starlette.requests import HTTPConnection
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from ekiden.core.errors import EkidenError
from ekiden.server.problem_responses import response_of

POLICY_VIOLATION = 1008

_DENIAL = "websocket.http.response"


async def refuse(scope: Scope, receive: Receive, send: Send, error: EkidenError) -> None:
    """Answer with the problem; a WebSocket that cannot be answered so is closed unaccepted."""
    await answer(scope, receive, send, response_of(error))


async def answer(scope: Scope, receive: Receive, send: Send, response: Response) -> None:
    """Answer with `response`, before the application did."""
    if scope["type"] == "websocket" and _DENIAL not in (scope.get("extensions") or {}):
        await send({"type": "websocket.close", "code": POLICY_VIOLATION})
        return
    await response(scope, receive, send)


def state_of(scope: Scope) -> MutableMapping[str, Any]:
    """What is known of the request, as `request.state` has it."""
    state: MutableMapping[str, Any] = scope.setdefault("state", {})
    return state


def header(scope: Scope, name: str) -> str | None:
    """A header of the request."""
    return HTTPConnection(scope).headers.get(name)
