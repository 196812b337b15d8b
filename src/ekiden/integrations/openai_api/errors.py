"""Errors in OpenAI's format, for every route under `/v1`.

The official client retries after 409, 429 and 5xx. After a failed run, a retry would start a second
run with its own side effects. So the answers of failed runs have `X-Should-Retry: false`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException
from starlette.responses import Response

from ekiden.core.errors import EkidenError, SessionBusy, UnknownAgent
from ekiden.core.values import dumps, loads
from ekiden.server.problems import response_of, status_of, title_of

_log = logging.getLogger("ekiden.server")

_TYPES = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}

_NOT_SHOWN = frozenset({"body", "query", "path", "str", "constrained-str"})
"""Parts of pydantic's error location that are not names of fields."""


class OpenAIErrorDetail(BaseModel):
    """The details of an error."""

    message: str
    type: str
    param: str | None = Field(default=None, description="The part of the request with the error.")
    code: str | None = Field(
        default=None, description="A stable code. Errors of Ekiden have Ekiden's own codes."
    )


class OpenAIError(BaseModel):
    """An error in the format of OpenAI's API."""

    error: OpenAIErrorDetail


def errors(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The `responses=` of a route for these error statuses."""
    return {status: {"model": OpenAIError, "description": title_of(status)} for status in statuses}


EVERYWHERE = errors(400, 401, 403, 409, 413, 429, 500, 503)


class BadRequest(Exception):
    """The request is invalid or not supported."""

    def __init__(
        self,
        message: str,
        *,
        param: str | None = None,
        code: str = "invalid_value",
        status: int = 400,
    ) -> None:
        super().__init__(message)
        self.param = param
        self.code = code
        self.status = status


def unsupported(param: str, advice: str) -> BadRequest:
    """The error for a parameter that cannot be ignored, because it changes the answer."""
    return BadRequest(
        f"{param!r} is not supported here: {advice}", param=param, code="unsupported_parameter"
    )


def error_body(
    message: str, *, status: int, code: str | None = None, param: str | None = None
) -> dict[str, Any]:
    """The error as JSON."""
    kind = _TYPES.get(status, "invalid_request_error" if status < 500 else "server_error")
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


def error_response(
    message: str,
    *,
    status: int,
    code: str | None = None,
    param: str | None = None,
    headers: dict[str, str] | None = None,
) -> Response:
    """The error as an HTTP response."""
    body = error_body(message, status=status, code=code, param=param)
    return Response(dumps(body), status, headers=headers, media_type="application/json")


def final(headers: dict[str, str] | None = None) -> dict[str, str]:
    """The headers, with the one that tells clients not to retry."""
    return {**(headers or {}), "X-Should-Retry": "false"}


class OpenAIRoute(APIRoute):
    """A route whose errors have OpenAI's format."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The handler, whose exceptions become error responses."""
        handler = super().get_route_handler()

        async def handle(request: Request) -> Response:
            try:
                return await handler(request)
            except BadRequest as exc:
                return error_response(
                    str(exc), status=exc.status, code=exc.code, param=exc.param, headers=final()
                )
            except EkidenError as exc:
                return _ekiden_error(exc)
            except RequestValidationError as exc:
                return _invalid(exc)
            except HTTPException as exc:
                return error_response(str(exc.detail), status=exc.status_code)
            except Exception:
                _log.exception("a request failed: %s %s", request.method, request.url.path)
                message = "a mistake in Ekiden; the server's log says more"
                return error_response(message, status=500, code="server.internal", headers=final())

        return handle


def _ekiden_error(exc: EkidenError) -> Response:
    status, param, code = status_of(exc), None, exc.code
    if isinstance(exc, UnknownAgent):
        param, code = "model", "model_not_found"
    problem = response_of(exc)
    message = loads(bytes(problem.body))["detail"]
    kept = ("WWW-Authenticate", "Retry-After")
    headers = {name: problem.headers[name] for name in kept if name in problem.headers}
    if status == 422:
        status = 400
    # A busy session is free soon, so clients may retry; every other conflict stays.
    if status == 409 and not isinstance(exc, SessionBusy):
        headers = final(headers)
    return error_response(message, status=status, code=code, param=param, headers=headers)


def _invalid(exc: RequestValidationError) -> Response:
    first = exc.errors()[0] if exc.errors() else {"loc": (), "msg": "is not as it should be"}
    place = ".".join(str(part) for part in first["loc"] if part not in _NOT_SHOWN)
    message = f"{place or 'the body'}: {str(first['msg'])[:300]}"
    code = "invalid_json" if first.get("type") == "json_invalid" else "invalid_value"
    return error_response(message, status=400, code=code, param=place or None)
