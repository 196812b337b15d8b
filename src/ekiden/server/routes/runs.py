"""`/runs`: say something to the team, and watch."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import Annotated, Any, Literal, TypeAlias

from fastapi import APIRouter, Path, Query, Request, Response

from ekiden.api.texts import SESSION_ID
from ekiden.app.records.runs import ACTIVE, run_id_of
from ekiden.app.runs import RunOrder, StartedRun
from ekiden.core.errors import SessionNotFound
from ekiden.core.server_errors import RunNotFound
from ekiden.server.access import Reads, Starts, TheCaller
from ekiden.server.agui.streaming import agui_run_stream
from ekiden.server.answers import answer, page
from ekiden.server.idempotency import start_once
from ekiden.server.models.runs import NewRun, ResumeRun, RunModel
from ekiden.server.paging import PAGE, Cursor, Page, SessionId
from ekiden.server.params import User, word
from ekiden.server.problems import problems
from ekiden.server.sse import (
    EVENT_STREAM,
    LastEventId,
    Streams,
    parse_last_id,
    run_stream,
    session_stream,
    stream_responses,
)
from ekiden.storage.base import SessionFilter

router = APIRouter(tags=["runs"])

RunId: TypeAlias = Annotated[
    str,
    Path(
        min_length=3,
        max_length=140,
        pattern=SESSION_ID,
        description="`SESSION:NUMBER`.",
    ),
]
Until: TypeAlias = Annotated[
    Literal["pause", "outcome"],
    Query(
        description="When the stream ends: when nobody works on the run any more, which may be "
        "because it waits for people, or only with an outcome."
    ),
]


@router.post(
    "/runs",
    response_model=RunModel,
    responses={
        200: {
            "description": "The run is over, or waits; with `stream` its events as they happen.",
            "content": EVENT_STREAM,
        },
        202: {"model": RunModel, "description": "The run goes on."},
        **problems(404, 409, 413),
    },
)
async def start_run(desk: Starts, caller: TheCaller, body: NewRun, request: Request) -> Response:
    """Say something to the team, and wait for the answer or watch it being made.

    The message is stored before this answers, and the run goes on whatever becomes of the
    connection, the client or the server. With an `Idempotency-Key` it is said once, however often
    it is sent.
    """
    streams = body.stream or "text/event-stream" in request.headers.get("accept", "")
    order = RunOrder(
        input=body.input,
        session_id=body.session_id,
        to=body.agent,
        strategy=body.strategy,
        user_id=body.user_id,
        title=body.title,
        correlation_id=body.correlation_id,
        priority=body.priority,
        meta=_trace_of(request),
        max_turns=body.max_turns,
        on_busy=body.on_busy,
    )
    if streams:
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
    if body.background:
        record = await desk.runs.read(started.run_id)
    else:
        wait_s = body.timeout_s or request.app.state.config.wait_s
        record = await desk.runs.wait(started.run_id, timeout_s=wait_s)
    return _told(record, started, later=body.background)


@router.get("/runs", response_model=Page[RunModel])
async def list_runs(
    desk: Reads,
    limit: Annotated[int, Query(ge=1, le=200, description="How many at most.")] = PAGE,
    cursor: Cursor = None,
    status: Annotated[
        Literal["idle", "ready", "waiting"] | None,
        Query(description="Only those whose session is so."),
    ] = None,
    agent: Annotated[str | None, word("Only those whose session this agent has.")] = None,
    user: User = None,
) -> Response:
    """The last run of each session, newest session first."""
    where = SessionFilter(status=status, agent=agent, user_id=user)
    found = await desk.store.list(where, limit=limit, cursor=cursor)
    items = []
    for row in found.sessions:
        if row.cursor.get("r"):
            with suppress(SessionNotFound, RunNotFound):  # Removed meanwhile.
                items.append(await desk.runs.read(run_id_of(row.id, row.cursor["r"])))
    return page(items, found.next_cursor)


@router.get("/runs/{run_id}", response_model=RunModel, responses=problems(404))
async def get_run(
    desk: Reads,
    run_id: RunId,
    wait_s: Annotated[
        float, Query(ge=0, le=600, description="Wait so long for its end before answering.")
    ] = 0,
) -> Response:
    """A run as it stands, perhaps once nobody works on it any more."""
    if wait_s:
        return answer(await desk.runs.wait(run_id, timeout_s=wait_s))
    return answer(await desk.runs.read(run_id))


@router.get(
    "/runs/{run_id}/events",
    response_class=Response,
    responses={
        **stream_responses("Events, deltas of answers, and at the end one `end` with the run."),
        **problems(404),
    },
)
async def watch_run(
    desk: Reads,
    run_id: RunId,
    request: Request,
    last_event_id: LastEventId = None,
    until: Until = "pause",
    format: Annotated[
        Literal["ekiden", "agui"],
        Query(description="Our events, or those of AG-UI, which have no ids."),
    ] = "ekiden",
) -> Response:
    """The run's events, those that happened and those that come, as server-sent events.

    The id of an event is its number in the session; `Last-Event-ID` goes on after one without a
    gap. Deltas have no id. After `end` there is nothing more; a stream that ends without it was
    cut off.
    """
    after = parse_last_id(last_event_id)
    await desk.runs.read(run_id)
    waits = until == "outcome"
    streams = _streams(request)
    if format == "agui":
        return streams.response(agui_run_stream(desk, run_id, through_waits=waits))
    watching = desk.runs.watch(
        run_id, after=after, through_waits=waits, quiet_s=streams.heartbeat_s
    )
    return streams.response(run_stream(desk, run_id, watching, through_waits=waits))


@router.post("/runs/{run_id}/cancel", response_model=RunModel, responses=problems(404, 409))
async def cancel_run(desk: Starts, run_id: RunId) -> Response:
    """Stop a run; its work is kept, and it can be resumed. One that is over stays as it is."""
    return answer(await desk.runs.cancel(run_id))


@router.get(
    "/sessions/{session_id}/stream",
    response_class=Response,
    responses={**stream_responses("Events and deltas of answers."), **problems(404)},
)
async def watch_session(
    desk: Reads, session_id: SessionId, request: Request, last_event_id: LastEventId = None
) -> Response:
    """All events of a session, those that happened and those that come, run after run."""
    after = parse_last_id(last_event_id) or 0
    await desk.store.get(session_id)
    streams = _streams(request)
    return streams.response(
        session_stream(desk, session_id, after=after, quiet_s=streams.heartbeat_s)
    )


@router.post(
    "/sessions/{session_id}/resume",
    response_model=RunModel,
    responses={202: {"model": RunModel, "description": "It goes on."}, **problems(404, 409)},
)
async def resume_session(
    desk: Starts, session_id: SessionId, request: Request, body: ResumeRun
) -> Response:
    """Go on with a run that was stopped, failed, or ran out of its budget.

    One that waits for people goes on by itself when they have answered.
    """
    started = await desk.runs.resume(session_id, max_turns=body.max_turns)
    wait_s = body.timeout_s or request.app.state.config.wait_s
    if body.background:
        record = await desk.runs.read(started.run_id)
    else:
        record = await desk.runs.wait(started.run_id, timeout_s=wait_s)
    return _told(record, started, later=body.background)


def _streams(request: Request) -> Streams:
    streams: Streams = request.app.state.streams
    return streams


def _told(record: dict[str, Any], started: StartedRun, *, later: bool) -> Response:
    status = 202 if later or record["status"] in ACTIVE else 200
    return answer(record, status, headers=_headers(started))


def _headers(started: StartedRun) -> dict[str, str]:
    return {
        "Location": f"/api/v1/runs/{started.run_id}",
        "X-Ekiden-Session": started.session_id,
        "X-Ekiden-Run": started.run_id,
    }


def _trace_of(request: Request) -> dict[str, Any]:
    """The trace that the caller's work is part of, if it says so."""
    told = request.headers.get("traceparent", "")
    return {"traceparent": told} if len(told) == 55 and told.isascii() else {}
