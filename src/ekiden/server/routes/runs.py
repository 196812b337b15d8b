"""`/runs`, beyond a plain call of the interface: runs start once, and are followed."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Annotated, Any, Final, Literal, TypeAlias

from fastapi import APIRouter, Path, Query, Request, Response

from ekiden.api.local.runs import order_of
from ekiden.api.methods.values import SESSION_ID
from ekiden.api.runs import Until, limits_of
from ekiden.core.documents import to_json
from ekiden.core.integrations.registry import integration
from ekiden.project.run_tasks import StartedRun
from ekiden.project.service import TenantService
from ekiden.server.access.access import caller_of
from ekiden.server.answers import Reads, SessionId, answer, problems
from ekiden.server.derived import ByHand
from ekiden.server.idempotency import start_once
from ekiden.server.streams.follow import watch_with_children
from ekiden.server.streams.sse import (
    EVENT_STREAM,
    LastEventId,
    Streams,
    parse_last_id,
    run_stream,
    session_stream,
    stream_responses,
)

router = APIRouter(tags=["runs"])

_RunId: TypeAlias = Annotated[
    str,
    Path(
        min_length=3,
        max_length=140,
        pattern=SESSION_ID,
        description="`SESSION:NUMBER`.",
    ),
]


async def start_run(
    request: Request, desk: TenantService, method: str, given: dict[str, Any]
) -> Response:
    """Start a run, once for each `Idempotency-Key`; respond with its end, its start, or its
    stream."""
    wait_s = given.pop("timeout_s", None) or request.app.state.config.wait_s
    options: Any = given
    may_write = (await caller_of(request)).may("history")
    order = order_of(given.pop("input"), options, may_write_history=may_write)
    order = replace(order, meta=_trace_of(request))
    if method == "stream" or "text/event-stream" in request.headers.get("accept", ""):
        _streams(request).check_room()
        quiet_s = _streams(request).heartbeat_s
        watched = partial(desk.runs.start_watched, quiet_s=quiet_s)
        found = await start_once(request, desk, order, watched)
        if isinstance(found, StartedRun):
            found = found, desk.runs.watch(found.run_id, quiet_s=quiet_s)
        started, watching = found
        stream = run_stream(desk, started.run_id, watching, through_waits=False)
        return _streams(request).response(stream, _headers(started))
    started = await start_once(request, desk, order, desk.runs.start)
    return await _response(desk, started, None if method == "start" else wait_s)


async def resume_session(
    request: Request, desk: TenantService, method: str, given: dict[str, Any]
) -> Response:
    """Resume a run, and respond with its end, or that it continues."""
    wait_s = given.pop("timeout_s", None) or request.app.state.config.wait_s
    started = await desk.runs.resume(given["session_id"], limits=limits_of(given))
    return await _response(desk, started, None if method == "resume" else wait_s)


BY_HAND: Final = {
    "run": ByHand(
        start_run,
        {
            200: {
                "description": (
                    "The run, which has ended or waits. With `stream`, the events of "
                    "the run as they happen."
                ),
                "content": EVENT_STREAM,
            }
        },
    ),
    "resume_and_wait": ByHand(resume_session, {}),
}
"""By the method of `RunsApi`."""


@router.get(
    "/runs/{run_id}/events",
    name="runs_follow",
    response_class=Response,
    responses={
        **stream_responses("Events, deltas of answers, and finally one `end` with the run."),
        **problems(404),
    },
)
async def watch_run(
    desk: Reads,
    run_id: _RunId,
    request: Request,
    last_event_id: LastEventId = None,
    until: Annotated[
        Until,
        Query(
            description="When the stream ends: as soon as no process works on the run, for example "
            "because it waits for a person, or only when the run has an outcome."
        ),
    ] = "pause",
    format: Annotated[
        Literal["ekiden", "agui"],
        Query(
            description=(
                "The format of the events: Ekiden's own, or AG-UI. AG-UI events have no ids."
            )
        ),
    ] = "ekiden",
    children: Annotated[
        bool,
        Query(
            description="Include the events and deltas of agents that the run calls as tools or "
            "sends queries to. These events have no id, but a `depth`."
        ),
    ] = False,
) -> Response:
    """Stream the run's past and future events as server-sent events.

    The id of an event is its number in the session. `Last-Event-ID` continues after the event with
    that id. Deltas have no id. The last event is `end`. A stream that ends without it was cut off.
    """
    after = parse_last_id(last_event_id)
    await desk.runs.read(run_id)
    waits = until == "outcome"
    streams = _streams(request)
    if format == "agui":
        return streams.response(
            integration("agui").load().agui_run_stream(desk, run_id, through_waits=waits)
        )
    watch = partial(watch_with_children, desk) if children else desk.runs.watch
    watching: Any = watch(run_id, after=after, through_waits=waits, quiet_s=streams.heartbeat_s)
    return streams.response(run_stream(desk, run_id, watching, through_waits=waits))


@router.get(
    "/sessions/{session_id}/stream",
    name="runs_follow_session",
    response_class=Response,
    responses={**stream_responses("Events and deltas of answers."), **problems(404)},
)
async def watch_session(
    desk: Reads, session_id: SessionId, request: Request, last_event_id: LastEventId = None
) -> Response:
    """Stream all past and future events of a session, run after run."""
    after = parse_last_id(last_event_id) or 0
    await desk.store.get(session_id)
    streams = _streams(request)
    return streams.response(
        session_stream(desk, session_id, after=after, quiet_s=streams.heartbeat_s)
    )


def _streams(request: Request) -> Streams:
    streams: Streams = request.app.state.streams
    return streams


async def _response(desk: TenantService, started: StartedRun, wait_s: float | None) -> Response:
    """The run after at most `wait_s` seconds; `None`: at once."""
    if wait_s is None:
        run = await desk.runs.read(started.run_id)
    else:
        run = await desk.runs.wait(started.run_id, timeout_s=wait_s)
    status = 202 if wait_s is None or run.is_active else 200
    return answer(to_json(run), status, headers=_headers(started))


def _headers(started: StartedRun) -> dict[str, str]:
    return {
        "Location": f"/api/v1/runs/{started.run_id}",
        "X-Ekiden-Session": started.session_id,
        "X-Ekiden-Run": started.run_id,
    }


def _trace_of(request: Request) -> dict[str, Any]:
    """The trace of the caller, from its header."""
    trace = request.headers.get("traceparent", "")
    return {"traceparent": trace} if len(trace) == 55 and trace.isascii() else {}
