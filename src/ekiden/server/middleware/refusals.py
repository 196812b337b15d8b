"""Refuses requests before the application, and writes problems in another protocol's format; also
the marks by which routes declare their query parameters.

Keys, rates, origins and bodies are checked before a route is found, and faults are reported as
problem details. Clients of other protocols do not understand these, so they are translated.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping
from typing import Any, Final, TypeAlias, TypeVar

from starlette.requests import HTTPConnection
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from ekiden.core.errors import EkidenError
from ekiden.core.values import dumps, loads
from ekiden.server.problems import MEDIA_TYPE, response_of

POLICY_VIOLATION = 1008

_DENIAL = "websocket.http.response"


async def refuse(scope: Scope, receive: Receive, send: Send, error: EkidenError) -> None:
    """Answer with the problem; a WebSocket whose server cannot send it is closed unaccepted."""
    await answer(scope, receive, send, response_of(error))


async def answer(scope: Scope, receive: Receive, send: Send, response: Response) -> None:
    """Answer with `response` instead of the application."""
    if scope["type"] == "websocket" and _DENIAL not in (scope.get("extensions") or {}):
        await send({"type": "websocket.close", "code": POLICY_VIOLATION})
        return
    await response(scope, receive, send)


def state_of(scope: Scope) -> MutableMapping[str, Any]:
    """The state of the request, as in `request.state`."""
    state: MutableMapping[str, Any] = scope.setdefault("state", {})
    return state


def header(scope: Scope, name: str) -> str | None:
    """A header of the request."""
    return HTTPConnection(scope).headers.get(name)


MARK: Final = "__query__"
"""The attribute in which an endpoint names its query parameters; `None`: any."""
F = TypeVar("F", bound=Callable[..., Any])


def takes_query(*names: str) -> Callable[[F], F]:
    """Declare query parameters that a route reads itself, without FastAPI."""

    def mark(endpoint: F) -> F:
        setattr(endpoint, MARK, names)
        return endpoint

    return mark


def takes_any_query(endpoint: F) -> F:
    """Declare that a route ignores query parameters, which browsers and caches add to files."""
    setattr(endpoint, MARK, None)
    return endpoint


Reshape: TypeAlias = Callable[[int, dict[str, Any]], tuple[int, Mapping[str, Any]] | None]
"""Returns the status and body to send instead of a problem; `None` leaves it unchanged."""


class Reshaping:
    """Sends the response; a problem is held back until it is complete, and then reshaped."""

    def __init__(self, send: Send, reshape: Reshape) -> None:
        self._send = send
        self._reshape = reshape
        self._start: Message | None = None
        self._body = b""

    async def __call__(self, message: Message) -> None:
        """Send a message of the application, or hold it back."""
        if message["type"] == "http.response.start" and _is_problem(message):
            self._start = message
        elif self._start is None:
            await self._send(message)
        elif message["type"] == "http.response.body":
            self._body += message.get("body", b"")
            if not message.get("more_body", False):
                await self._reshaped(self._start)

    async def _reshaped(self, start: Message) -> None:
        reshaped = self._reshape(start["status"], loads(self._body))
        if reshaped is None:
            await self._send(start)
            await self._send({"type": "http.response.body", "body": self._body})
            return
        body = dumps(reshaped[1]).encode()
        kept = [
            (name, value)
            for name, value in start["headers"]
            if name.lower() not in (b"content-type", b"content-length")
        ]
        headers = [
            *kept,
            (b"content-type", b"application/json"),
            (b"content-length", str(len(body)).encode()),
        ]
        await self._send({**start, "status": reshaped[0], "headers": headers})
        await self._send({"type": "http.response.body", "body": body})


def _is_problem(start: Message) -> bool:
    kind = MEDIA_TYPE.encode()
    return any(
        name.lower() == b"content-type" and value.startswith(kind)
        for name, value in start["headers"]
    )
