"""Errors of routes: what the OpenAPI document says of them, and the handlers that answer."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import Match

from ekiden.api.methods.arguments import problem_of
from ekiden.core.errors import EkidenError
from ekiden.core.errors.server import MethodNotAllowed, NotServed, RequestInvalid
from ekiden.core.privacy.masking import cover
from ekiden.server.problems.responses import (
    MEDIA_TYPE,
    problem_response,
    response_of,
    title_of,
)

_log = logging.getLogger("ekiden.server")


class Problem(BaseModel):
    """An error in the format of RFC 9457, with Ekiden's stable `code`."""

    model_config = ConfigDict(extra="allow")

    type: str = Field(description="The problem's type, as a URN with the code.")
    title: str
    status: int
    detail: str = Field(description="What is wrong, and what to do.")
    code: str = Field(description="A stable code; see the page on errors.")


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
    if exc.status_code == 405:
        return response_of(MethodNotAllowed(request.method, allowed=_allowed(request)))
    code = NotServed.code if exc.status_code == 404 else RequestInvalid.code
    answer = problem_response(exc.status_code, code, str(exc.detail))
    for name, value in (exc.headers or {}).items():
        answer.headers[name] = value
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
