"""The shared parts of routes: groups, parameters, responses, and errors in the problem format.

Routes return responses directly, without validation or copies. The reasons are that a page may be
long, and that output of models and tools may contain lone surrogates, which pydantic refuses. The
OpenAPI document shows the models of the responses.
"""

from __future__ import annotations

import logging
import re
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from typing import Annotated, Any, Final, Generic, TypeAlias, TypeVar

from fastapi import APIRouter, Depends, FastAPI, Header, Path, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException
from starlette.responses import Response, StreamingResponse
from starlette.routing import BaseRoute, Match

from ekiden.api.methods.endpoint import problem_of
from ekiden.api.methods.values import SESSION_ID
from ekiden.core.errors import EkidenError
from ekiden.core.errors.server import MethodNotAllowed, NotServed, RequestInvalid
from ekiden.core.privacy.masking import cover
from ekiden.core.values import dumps
from ekiden.project.service import TenantService
from ekiden.server.access import Caller, caller_of, needs
from ekiden.server.problems import MEDIA_TYPE, problem_response, response_of, title_of

_log = logging.getLogger("ekiden.server")

Reads: TypeAlias = Annotated[TenantService, Depends(needs("read"))]
Starts: TypeAlias = Annotated[TenantService, Depends(needs("run"))]
Administers: TypeAlias = Annotated[TenantService, Depends(needs("admin"))]
"""The type of a parameter with the service of the caller's tenant. The caller must have the
scope."""
TheCaller: TypeAlias = Annotated[Caller, Depends(caller_of)]
"""The caller, for routes that need its name. Used in addition to a parameter that checks the
scope."""

_CHUNK: Final = 64 * 1024
"""The approximate number of characters that are sent at once."""


_UNSEEN = re.compile("[\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
"""Characters that some readers take for a line end, or that control a terminal; they are written as
JSON escapes."""


class JsonAnswer(Response):
    """A response with a value as JSON."""

    media_type = "application/json"


class JsonLines(StreamingResponse):
    """A response with one JSON value on each line. Values are sent as they are read. The response
    stops when the client disconnects."""

    media_type = "application/x-ndjson"


def answer(
    value: Any, status: int = 200, *, headers: Mapping[str, str] | None = None
) -> JsonAnswer:
    """The value as a JSON response."""
    return JsonAnswer(dumps(value), status, headers=headers)


async def json_lines(lines: AsyncGenerator[str, None], *, filename: str) -> JsonLines:
    """The lines, each with its line feed, as a response.

    The first lines are read before anything is sent, so that an early error becomes a problem
    response. A later error closes the connection before the end of the response.
    """
    chunks = _chunks(lines)
    try:
        first = await anext(chunks, b"")
    except BaseException:
        await chunks.aclose()
        raise
    return JsonLines(
        _with_first(first, chunks),
        headers={
            "Content-Disposition": f'attachment; filename="{filename}"',
            "Cache-Control": "no-store",
        },
    )


def _escape(found: re.Match[str]) -> str:
    return f"\\u{ord(found[0]):04x}"


async def _with_first(first: bytes, rest: AsyncGenerator[bytes, None]) -> AsyncIterator[bytes]:
    async with aclosing(rest):
        if first:
            yield first
        async for chunk in rest:
            yield chunk


async def _chunks(lines: AsyncGenerator[str, None]) -> AsyncGenerator[bytes, None]:
    gathered: list[str] = []
    size = 0
    async with aclosing(lines):
        async for line in lines:
            gathered.append(_UNSEEN.sub(_escape, line))
            size += len(line)
            if size >= _CHUNK:
                yield "".join(gathered).encode()
                gathered, size = [], 0
    if gathered:
        yield "".join(gathered).encode()


T = TypeVar("T")

Cursor: TypeAlias = Annotated[
    str | None,
    Query(
        max_length=500,
        description=("The `next_cursor` of the previous page. Leave it out for the first page."),
    ),
]
SessionId: TypeAlias = Annotated[
    str, Path(min_length=1, max_length=128, pattern=SESSION_ID, description="The session's id.")
]


def limit_to(most: int) -> Any:
    """The parameter `limit` of a list, at most `most`."""
    return Query(ge=1, le=most, description="The maximum number of entries.")


def cursor_as(pattern: str, *, most: int = 500) -> Any:
    """The parameter `cursor` of a list whose cursors have this pattern."""
    return Query(
        max_length=most,
        pattern=pattern,
        description="The `next_cursor` of the previous page. Leave it out for the first page.",
    )


class Page(BaseModel, Generic[T]):
    """A page of a list."""

    items: list[T]
    next_cursor: str | None = Field(
        default=None, description="The cursor of the next page; `null` on the last page."
    )


_ETAG = re.compile(r'(?P<weak>W/)?"(?P<tag>[\x21\x23-\x7e\x80-\xff]*)"')
_ONE: Final = r'(W/)?"[!#-~\x80-\xff]*"'
_LIST: Final = rf"^(\*|{_ONE}(\s*,\s*{_ONE})*)$"
_TAGS = re.compile(_LIST)
_VERSION = re.compile(r"(?:v|[a-z]+-)([0-9]{1,18})", re.ASCII)
"""The tag of a version: ``v3``, or ``open-3`` with the status of an inbox item."""
_MAX: Final = 2000

Versions: TypeAlias = int | Sequence[int] | None
"""The version that the client read, or several versions. `None` means any version."""


def etag_of(version: int) -> str:
    """The ETag of a version."""
    return f'"v{version}"'


def parse_if_match(text: str | None) -> Versions:
    """Parse the header `If-Match`. Raises `RequestInvalid` if it is not a list of ETags. Weak tags
    and tags of other servers match no version.
    """
    if text is None or text.strip() == "*":
        return None
    if _TAGS.fullmatch(text.strip()) is None:
        raise RequestInvalid('If-Match is not an ETag; send the ETag with its quotes: "v3"')
    tags = [found["tag"] for found in _ETAG.finditer(text) if not found["weak"]]
    versions = [int(found[1]) for found in map(_VERSION.fullmatch, tags) if found is not None]
    return versions[0] if len(versions) == 1 else versions


async def _matching(
    if_match: Annotated[
        str | None,
        Header(
            alias="If-Match",
            max_length=_MAX,
            json_schema_extra={"pattern": _LIST},
            description="The `ETag` that you read. If the current `ETag` is different, the status "
            "is 412.",
        ),
    ] = None,
) -> Versions:
    return parse_if_match(if_match)


Matching: TypeAlias = Annotated[Versions, Depends(_matching)]


class Problem(BaseModel):
    """An error in the format of RFC 9457, with Ekiden's stable `code`."""

    model_config = ConfigDict(extra="allow")

    type: str = Field(description="The problem's type, as a URN with the code.")
    title: str
    status: int
    detail: str = Field(description="What is wrong, and what to do.")
    code: str = Field(description="A stable code; see the page on errors.")


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The value of a route's argument `responses` for these error statuses."""
    return {
        status: {
            "model": Problem,
            "description": title_of(status),
            "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
        }
        for status in statuses
    }


def _place(error: Mapping[str, Any], body: Any) -> str:
    """The place of an error in the request, such as ``body.limit``."""
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
            continue  # The name of a tried type, which pydantic puts between the fields.
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
    response = problem_response(exc.status_code, code, str(exc.detail))
    for name, value in (exc.headers or {}).items():
        response.headers[name] = value
    return response


def _allowed(request: Request) -> list[str]:
    """The methods of the address; each can be a separate route, and the router names only one."""
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


def install_handlers(app: FastAPI) -> None:
    """Make the application answer errors with problem responses."""
    app.add_exception_handler(EkidenError, _ours)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(Exception, _unexpected)


API: Final = "/api/v1"
EVERYWHERE: dict[int | str, dict[str, Any]] = problems(401, 403, 422, 429, 503)
"""The responses that every route of Ekiden may have, in addition to its own."""


def operation_id(route: APIRoute) -> str:
    """The operation id in the OpenAPI document."""
    return route.name


def grouped(
    *routers: APIRouter,
    prefix: str = API,
    responses: dict[int | str, dict[str, Any]] | None = EVERYWHERE,
) -> tuple[BaseRoute, ...]:
    """The routes of all these routers. Keep the result, because the first request to a route
    prepares the route."""
    root = APIRouter(generate_unique_id_function=operation_id)
    for router in routers:
        root.include_router(router, prefix=prefix, responses=responses)
    return tuple(root.routes)
