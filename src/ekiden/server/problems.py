"""Responses for Ekiden's errors as `application/problem+json`, also before the application is
reached.

This module does not need FastAPI, so that requests can be refused before the routes are loaded.

Keys, rates, origins and bodies are checked before a route is found, and faults are reported as
problem details. Clients of other protocols do not understand problem details, so these are
translated.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, MutableMapping
from http import HTTPStatus
from typing import Any, Final, TypeAlias, TypeVar

from starlette.requests import HTTPConnection
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from ekiden.core.errors import (
    EkidenError,
    HandoffNotFound,
    HandoffRefused,
    HandoffSettled,
    LeaseLost,
    ModelError,
    NoRoute,
    OutOfBudgetError,
    QueueFull,
    RequestNotRecorded,
    RoutingError,
    SessionBusy,
    SessionExists,
    SessionNotFound,
    SessionNotWaiting,
    StaleDocument,
    StoreError,
    ToolError,
    UnknownAgent,
    UserError,
)
from ekiden.core.errors.collaboration import (
    CollaborationError,
    CollaborationNotFound,
    MessageMalformed,
)
from ekiden.core.errors.memory import BackendUnavailable, MemoryNotFound
from ekiden.core.errors.messages import (
    InboxForbidden,
    InboxItemClosed,
    InboxItemNotFound,
    MailboxFull,
    MessageNotFound,
    SenderForged,
)
from ekiden.core.errors.server import (
    AuditRecordNotFound,
    BadOrigin,
    CsrfFailed,
    Forbidden,
    IdempotencyConflict,
    KeyNotFound,
    MethodNotAllowed,
    NotServed,
    PreconditionFailed,
    RequestInvalid,
    RequestTooLarge,
    RunNotFound,
    ServerBusy,
    ServerStopping,
    StandardUnavailable,
    TookTooLong,
    TooManyRequests,
    Unauthenticated,
    UnknownParameter,
)
from ekiden.core.errors.stored_data import StaleState
from ekiden.core.privacy.masking import cover
from ekiden.core.values import dumps, loads

_log = logging.getLogger("ekiden.server")

MEDIA_TYPE = "application/problem+json"

_BY_ERROR: tuple[tuple[type[EkidenError], int], ...] = (
    (Unauthenticated, 401),
    (Forbidden, 403),
    (BadOrigin, 403),
    (CsrfFailed, 403),
    (InboxForbidden, 403),
    (NotServed, 404),
    (MethodNotAllowed, 405),
    (RunNotFound, 404),
    (AuditRecordNotFound, 404),
    (SessionNotFound, 404),
    (RequestNotRecorded, 404),
    (UnknownAgent, 404),
    (KeyNotFound, 404),
    (HandoffNotFound, 404),
    (InboxItemNotFound, 404),
    (MemoryNotFound, 404),
    (CollaborationNotFound, 404),
    (MessageNotFound, 404),
    (SenderForged, 403),
    (InboxItemClosed, 409),
    (SessionBusy, 409),
    (SessionExists, 409),
    (LeaseLost, 409),
    (IdempotencyConflict, 409),
    (StaleDocument, 412),
    (StaleState, 412),
    (PreconditionFailed, 412),
    (RequestTooLarge, 413),
    (TookTooLong, 504),
    (HandoffRefused, 409),
    (HandoffSettled, 409),
    (SessionNotWaiting, 409),
    (RequestInvalid, 422),
    (NoRoute, 422),
    (MessageMalformed, 422),
    (CollaborationError, 409),
    (TooManyRequests, 429),
    (QueueFull, 503),
    (MailboxFull, 503),
    (ServerBusy, 503),
    (ServerStopping, 503),
    (StandardUnavailable, 503),
    (BackendUnavailable, 503),
    (StoreError, 503),
    (OutOfBudgetError, 409),
    (ModelError, 502),
    (ToolError, 502),
    (RoutingError, 502),
    (UserError, 422),
    (EkidenError, 422),
)
"""The first match decides."""

_TITLES = {413: "Content Too Large", 422: "Unprocessable Content"}
_RETRY_AFTER_S = {429: 1.0, 503: 2.0, 409: 1.0}


def title_of(status: int) -> str:
    """The current name of an HTTP status. Python's own names depend on the version of Python."""
    return _TITLES.get(status) or HTTPStatus(status).phrase


def status_of(error: EkidenError) -> int:
    """The HTTP status of an error."""
    return next(status for kind, status in _BY_ERROR if isinstance(error, kind))


def problem_response(
    status: int, code: str, detail: str, facts: Mapping[str, Any] | None = None
) -> Response:
    """A response with a problem."""
    body = {
        **(facts or {}),
        "type": f"urn:ekiden:error:{code}",
        "title": title_of(status),
        "status": status,
        "detail": detail,
        "code": code,
    }
    headers = {}
    if status == 401:
        headers["WWW-Authenticate"] = 'Bearer realm="ekiden"'
    retry_after_s = (facts or {}).get("retry_after_s") or _RETRY_AFTER_S.get(status)
    if status in (429, 503) or "retry_after_s" in (facts or {}):
        headers["Retry-After"] = str(max(1, round(retry_after_s or 1)))
    return Response(dumps(body), status, headers=headers, media_type=MEDIA_TYPE)


def words_for(error: EkidenError) -> str:
    """The text of an error for a caller, without secrets. For a store failure the text says only
    that the store failed. The details describe the machine, so they are only logged.
    """
    if isinstance(error, StoreError) and not isinstance(error, StaleDocument | QueueFull):
        _log.error("the store failed: %s", cover(str(error)))
        return "the store cannot do this now; the server's log says why"
    return cover(str(error))


def response_of(error: EkidenError) -> Response:
    """The response to an error."""
    facts: dict[str, Any] = {}
    if isinstance(error, (TooManyRequests, ServerBusy, ServerStopping)) or (
        isinstance(error, IdempotencyConflict) and error.retry_after_s is not None
    ):
        facts["retry_after_s"] = error.retry_after_s
    if isinstance(error, SessionBusy):
        facts["retry_after_s"] = max(1.0, min(error.free_in_s, 30.0))
    if isinstance(error, InboxItemClosed):
        facts["status_of_item"], facts["closed_by"] = error.status, error.by
    if isinstance(error, HandoffRefused | UnknownAgent) and error.refusal is not None:
        facts["refusal"] = error.refusal
    if isinstance(error, UnknownAgent) and error.handoff_id is not None:
        facts["handoff_id"] = error.handoff_id
    if isinstance(error, UnknownParameter):
        facts["known"] = list(error.known)
    if isinstance(error, HandoffSettled):
        facts["handoff"] = dict(error.handoff)
    if isinstance(error, MethodNotAllowed):
        facts["allowed"] = list(error.allowed)
    answer = problem_response(status_of(error), error.code, words_for(error), facts)
    if isinstance(error, MethodNotAllowed):
        answer.headers["Allow"] = ", ".join(error.allowed)
    return answer


POLICY_VIOLATION = 1008

_DENIAL = "websocket.http.response"


async def refuse(scope: Scope, receive: Receive, send: Send, error: EkidenError) -> None:
    """Answer with the problem. If the server cannot send it on a WebSocket, the WebSocket is closed
    without being accepted."""
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
"""The attribute in which an endpoint names its query parameters. `None` means that it accepts
all."""
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
"""A function that returns the status and body to send instead of a problem. `None` means that the
problem is sent unchanged."""


class Reshaping:
    """Sends the response. A problem is held back until it is complete, and then converted."""

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
