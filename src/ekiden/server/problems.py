"""Ekiden's errors as `application/problem+json`; one table gives their HTTP statuses.

Nothing here needs FastAPI, so that requests can be refused before the routes are loaded.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from starlette.responses import Response

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
    (MethodNotAllowed, 405),
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
    """HTTP's current name of a status; versions of Python differ."""
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
    that the store failed: the details describe the machine, and are logged.
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
