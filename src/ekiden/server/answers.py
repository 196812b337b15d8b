"""Responses: JSON as stored, and long lists as JSON lines.

Routes return these directly, so that nothing is validated or copied: output of models and tools may
hold lone surrogates, which pydantic refuses, and a page may be long. Their models are what the
OpenAPI document shows.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing
from typing import Any, Final

from starlette.responses import Response, StreamingResponse

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
