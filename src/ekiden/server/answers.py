"""Responses: JSON as stored, long lists as JSON lines, pages, and ETags.

Routes return these directly, without validation or copies: output of models and tools may contain
lone surrogates, which pydantic refuses, and a page may be long. The OpenAPI document shows their
models.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from typing import Annotated, Any, Final, Generic, TypeAlias, TypeVar

from fastapi import Depends, Header, Path, Query
from pydantic import BaseModel, Field
from starlette.responses import Response, StreamingResponse

from ekiden.api.methods.values import SESSION_ID
from ekiden.core.errors.server import RequestInvalid
from ekiden.core.values import dumps

_CHUNK: Final = 64 * 1024
"""Characters that are sent at once, more or less."""


_UNSEEN = re.compile("[\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
"""What some readers take for the end of a line, and what a terminal would obey: in JSON each may
stand as its escape."""


class JsonAnswer(Response):
    """A value as JSON."""

    media_type = "application/json"


class JsonLines(StreamingResponse):
    """One JSON value on each line, sent as they are read; it stops when the client disconnects."""

    media_type = "application/x-ndjson"


def answer(
    value: Any, status: int = 200, *, headers: Mapping[str, str] | None = None
) -> JsonAnswer:
    """The value as an answer."""
    return JsonAnswer(dumps(value), status, headers=headers)


async def json_lines(lines: AsyncGenerator[str, None], *, filename: str) -> JsonLines:
    """The lines, each with its line feed, as an answer.

    The first of them are read before anything is sent, so an error there is a problem as any
    other. One that comes later breaks the connection off: the answer has no end then.
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
    str,
    Path(
        min_length=1,
        max_length=128,
        pattern=SESSION_ID,
        description="The session's id.",
    ),
]


def limit_to(most: int) -> Any:
    """How many members a page has."""
    return Query(ge=1, le=most, description="The maximum number of entries.")


def cursor_as(pattern: str, *, most: int = 500) -> Any:
    """The cursor of a list whose cursors look so."""
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
"""`v3`, or `open-3` with the status of what has one."""
_MAX: Final = 2000

Versions: TypeAlias = int | Sequence[int] | None
"""The version that the client read, or several versions; `None`: any version."""


def etag_of(version: int) -> str:
    """The ETag of a version."""
    return f'"v{version}"'


def parse_if_match(text: str | None) -> Versions:
    """Parse the header. Raises `RequestInvalid` if it is not a list of ETags. Weak tags and tags of
    other servers match nothing.
    """
    if text is None or text.strip() == "*":
        return None
    if _TAGS.fullmatch(text.strip()) is None:
        raise RequestInvalid('If-Match is no ETag; send what ETag said, with its quotes: "v3"')
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
