"""Errors as `application/problem+json`: one table from Ekiden's errors to HTTP statuses."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import Match

from ekiden.api.arguments import problem_of
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
    NotServed,
    PreconditionFailed,
    RequestInvalid,
    RequestTooLarge,
    RunNotFound,
    ServerBusy,
    ServerStopping,
    TookTooLong,
    TooManyRequests,
    Unauthenticated,
    UnknownParameter,
)
from ekiden.core.errors.stored_data import StaleState
from ekiden.core.privacy.masking import cover
from ekiden.core.values import dumps

_log = logging.getLogger("ekiden.server")

MEDIA_TYPE = "application/problem+json"

_BY_ERROR: tuple[tuple[type[EkidenError], int], ...] = (
    (Unauthenticated, 401),
    (Forbidden, 403),
    (BadOrigin, 403),
    (CsrfFailed, 403),
    (InboxForbidden, 403),
    (NotServed, 404),
    (RunNotFound, 404),
    (AuditRecordNotFound, 404),
    (SessionNotFound, 404),
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
    (BackendUnavailable, 503),
    (StoreError, 503),
    (OutOfBudgetError, 409),
    (ModelError, 502),
    (ToolError, 502),
    (RoutingError, 502),
    (UserError, 422),
    (EkidenError, 422),
)
"""The first that fits decides."""

_TITLES = {413: "Content Too Large", 422: "Unprocessable Content"}
_RETRY_AFTER_S = {429: 1.0, 503: 2.0, 409: 1.0}


class Problem(BaseModel):
    """An error in the format of RFC 9457, with Ekiden's stable `code`."""

    model_config = ConfigDict(extra="allow")

    type: str = Field(description="The problem's type, as a URN with the code.")
    title: str
    status: int
    detail: str = Field(description="What is wrong, and what to do.")
    code: str = Field(description="A stable code; see the page on errors.")


def title_of(status: int) -> str:
    """What HTTP calls a status, today; versions of Python differ."""
    return _TITLES.get(status) or HTTPStatus(status).phrase


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """`responses=` of a route that may answer with these; those that every route may answer with
    are declared for all."""
    return {
        status: {
            "model": Problem,
            "description": title_of(status),
            "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
        }
        for status in statuses
    }


def status_of(error: EkidenError) -> int:
    """HTTP's number for one of our errors."""
    return next(status for kind, status in _BY_ERROR if isinstance(error, kind))


def problem_response(
    status: int, code: str, detail: str, facts: Mapping[str, Any] | None = None
) -> Response:
    """A problem as an answer."""
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
    """What a caller is told of an error, without secrets.

    Of a store that fails only that it does: its own words tell of the machine, and are logged.
    """
    if isinstance(error, StoreError) and not isinstance(error, StaleDocument | QueueFull):
        _log.error("the store failed: %s", cover(str(error)))
        return "the store cannot do this now; the server's log says why"
    return cover(str(error))


def response_of(error: EkidenError) -> Response:
    """One of our errors as an answer."""
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
    return problem_response(status_of(error), error.code, words_for(error), facts)


def _place(error: Mapping[str, Any], body: Any) -> str:
    """Where in the request something is wrong; the type that was tried there is left out."""
    source, *rest = error["loc"]
    kept = [source]
    value = body if source == "body" else dict.fromkeys(rest[:1])
    for number, part in enumerate(rest, start=1):
        if isinstance(value, Mapping) and part in value:
            value = value[part]
        elif isinstance(part, int):
            is_there = isinstance(value, list) and part < len(value)
            value = value[part] if is_there else None
        elif error["type"] != "missing" or number < len(rest):
            continue
        kept.append(part)
    return ".".join(map(str, kept))


def _problem(error: Mapping[str, Any]) -> str:
    known = problem_of(error.get("ctx") or {}, error.get("input"))
    return cover(known or str(error["msg"]))[:300]


async def _ours(request: Request, exc: Exception) -> Response:
    assert isinstance(exc, EkidenError)
    return response_of(exc)


async def _invalid(request: Request, exc: Exception) -> Response:
    assert isinstance(exc, RequestValidationError)
    if isinstance(exc.body, bytes):  # FastAPI reads other types as bytes.
        given = request.headers.get("content-type", "none")
        detail = f"the body has the type {given}: send Content-Type: application/json"
        return problem_response(422, RequestInvalid.code, detail)
    errors = [
        {"where": _place(each, exc.body), "problem": _problem(each)} for each in exc.errors()[:20]
    ]
    first = errors[0] if errors else {"where": "body", "problem": "is invalid"}
    detail = f"{first['where']}: {first['problem']}"
    return problem_response(422, RequestInvalid.code, detail, {"errors": errors})


async def _http(request: Request, exc: Exception) -> Response:
    assert isinstance(exc, HTTPException)
    code = NotServed.code if exc.status_code in (404, 405) else RequestInvalid.code
    answer = problem_response(exc.status_code, code, str(exc.detail))
    for name, value in (exc.headers or {}).items():
        answer.headers[name] = value
    if exc.status_code == 405:
        answer.headers["Allow"] = ", ".join(_allowed(request))
    return answer


def _allowed(request: Request) -> list[str]:
    """The methods of the address: each may be a route of its own, of which the router names one."""
    return [
        method
        for method in ("GET", "POST", "PUT", "PATCH", "DELETE")
        if any(
            route.matches({**request.scope, "method": method})[0] is Match.FULL
            for route in request.app.routes
        )
    ]


async def _unexpected(request: Request, exc: Exception) -> Response:
    _log.exception("a request failed: %s %s", request.method, request.url.path)
    detail = "a defect in Ekiden; the server's log has details"
    return problem_response(500, "server.internal", detail)


def install(app: FastAPI) -> None:
    """Let the application answer with problems."""
    app.add_exception_handler(EkidenError, _ours)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(Exception, _unexpected)
