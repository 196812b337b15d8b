"""`/traces`: what happened in a session, as a tree of spans."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Collection, Iterable
from typing import Annotated, Any, Literal, TypeAlias

from fastapi import APIRouter, Query, Response

from ekiden.app.desk import Desk
from ekiden.app.records.traces import cost_function, shown_trace, trace_record
from ekiden.app.running import prices_of
from ekiden.core.errors import UserError
from ekiden.core.jsonio import dumps
from ekiden.server.access import Reads
from ekiden.server.answers import answer, json_lines, page
from ekiden.server.models.traces import OpenAITrace, SpanKindName, SpanModel, TraceModel
from ekiden.server.paging import PAGE, Limit, Page, SessionId, cursor_as
from ekiden.server.problems import problems
from ekiden.tracing import Node, Trace, export_jsonl, export_openai, read_trace, trace_events

router = APIRouter(prefix="/traces", tags=["traces"])

Children: TypeAlias = Annotated[
    bool, Query(description="With the sessions that answered it, however deep.")
]
Content: TypeAlias = Annotated[
    bool,
    Query(
        description="With what was said. Keys and tokens are covered in any case, and nothing is "
        "shown of runs that were made without sensitive data in their traces."
    ),
]
_FORMATS: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The trace, in the format that was asked for.",
        "content": {"application/x-ndjson": {"schema": {"type": "string"}}},
    }
}


@router.get(
    "/{session_id}",
    response_model=TraceModel | OpenAITrace,
    responses={**_FORMATS, **problems(404)},
)
async def get_trace(
    desk: Reads,
    session_id: SessionId,
    format: Annotated[
        Literal["json", "jsonl", "events", "openai"],
        Query(
            description="`json`: the tree with sums; `jsonl`: a span on each line; `events`: an "
            "event on each line; `openai`: as the OpenAI Agents SDK exports it."
        ),
    ] = "json",
    children: Children = True,
    content: Content = False,
) -> Response:
    """The trace of a session; without what was said, unless that is asked for."""
    if format == "events":
        events = await trace_events(
            desk.store, session_id, children=children, include_content=content
        )
        return await json_lines(_lines(map(dumps, events)), filename=f"{session_id}.events.jsonl")
    trace = await _trace(desk, session_id, children=children)
    match format:
        case "json":
            return await asyncio.to_thread(
                lambda: answer(trace_record(trace, include_content=content))
            )
        case "openai":
            return await asyncio.to_thread(
                lambda: answer({"data": export_openai(trace, include_content=content)})
            )
        case "jsonl":
            lines = export_jsonl(trace, include_content=content)
            return await json_lines(_lines(lines), filename=f"{session_id}.trace.jsonl")


@router.get("/{session_id}/spans", response_model=Page[SpanModel], responses=problems(404))
async def list_spans(
    desk: Reads,
    session_id: SessionId,
    limit: Limit = PAGE,
    cursor: Annotated[str | None, cursor_as(r"^[0-9a-f]{16}$")] = None,
    kinds: Annotated[
        list[SpanKindName] | None,
        Query(max_length=20, description="Only these; may be given more than once."),
    ] = None,
    errors: Annotated[bool, Query(description="Only what went wrong.")] = False,
    children: Children = True,
    content: Content = False,
) -> Response:
    """The spans of a trace, in the order of the tree."""
    found = await _trace(desk, session_id, children=children)
    trace = await asyncio.to_thread(shown_trace, found, include_content=content)
    nodes = await asyncio.to_thread(_chosen, trace, kinds, errors)
    start = _start(nodes, cursor)
    shown = nodes[start : start + limit]
    more = shown[-1].span.span_id if start + limit < len(nodes) else None
    return page((node.to_json() for node in shown), more)


def _chosen(trace: Trace, kinds: Collection[str] | None, errors: bool) -> list[Node]:
    wrong = {span.span_id for span in trace.errors()} if errors else frozenset[str]()
    return [
        node
        for node in trace.nodes()
        if (not kinds or node.span.kind in kinds) and (not errors or node.span.span_id in wrong)
    ]


def _start(nodes: list[Node], cursor: str | None) -> int:
    """Where the page begins; `UserError` for what is no cursor of ours."""
    if cursor is None:
        return 0
    for number, node in enumerate(nodes, start=1):
        if node.span.span_id == cursor:
            return number
    raise UserError(f"{cursor[:40]!r} is not a cursor: pass the `next_cursor` of a page")


async def _trace(desk: Desk, session_id: str, *, children: bool) -> Trace:
    cost = cost_function(prices_of(desk.project.settings))
    return await read_trace(desk.store, session_id, children=children, cost=cost)


async def _lines(lines: Iterable[str]) -> AsyncGenerator[str, None]:
    for number, line in enumerate(lines):
        if number % 100 == 99:
            await asyncio.sleep(0)  # Nothing here waits, and others want their turn.
        yield f"{line}\n"
