"""Routes that are not derived from declarations: runs, health checks, metrics, and the console's
login.

The metrics cover all tenants. So they need a key of the operator, which has the scope `admin` and
belongs to the tenant `default`. Prometheus sends this key as a bearer token.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial
from typing import Annotated, Any, Final, Literal, TypeAlias

from fastapi import APIRouter, Path, Query, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import PlainTextResponse, Response

from ekiden import __version__
from ekiden.api.local.runs import order_of
from ekiden.api.methods.endpoint import Scope
from ekiden.api.methods.values import SESSION_ID
from ekiden.api.runs import Until, limits_of
from ekiden.core.documents import to_json
from ekiden.core.errors import EkidenError, StoreReadOnly, StoreUnavailable
from ekiden.core.errors.server import NotServed
from ekiden.core.integrations.registry import integration
from ekiden.project.run_tasks import StartedRun
from ekiden.project.service import TenantService
from ekiden.project.stores import DEFAULT_TENANT
from ekiden.server.access import (
    SCOPES,
    Caller,
    caller_of,
    csrf_token,
    forget_login,
    keep_login,
    service_of,
)
from ekiden.server.answers import Administers, Reads, SessionId, TheCaller, answer, problems
from ekiden.server.authorization import KeyAuthorization
from ekiden.server.derived import ByHand
from ekiden.server.idempotency import start_once
from ekiden.server.metrics import CONTENT_TYPE, Metrics
from ekiden.server.problems import problem_response
from ekiden.server.streams.follow import watch_with_children
from ekiden.server.streams.live import (
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
    str, Path(min_length=3, max_length=140, pattern=SESSION_ID, description="`SESSION:NUMBER`.")
]


async def start_run(
    request: Request, desk: TenantService, method: str, given: dict[str, Any]
) -> Response:
    """Start a run, once for each `Idempotency-Key`. The response is the ended run, the started run,
    or a stream of its events."""
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
    """Resume a run. The response is the ended run, or says that the run continues."""
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
"""The routes with their own code, by the method of `RunsApi`."""


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

    The id of an event is its number in the session. With `Last-Event-ID`, the stream continues
    after the event with that id. Deltas have no id. The last event is `end`. A stream that ends
    without this event was cut off.
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


health_router = APIRouter(tags=["health"])

_PATIENCE_S: Final = 5.0


class Health(BaseModel):
    """The response of the health check."""

    status: Literal["ok"]
    version: str = Field(description="The version of Ekiden.")


@health_router.get("/healthz", response_model=Health, responses=problems(422))
async def health() -> Health:
    """Check that the process runs. Nothing else is checked."""
    return Health(status="ok", version=__version__)


@health_router.get("/readyz", response_model=Health, responses=problems(422, 503))
async def readiness(request: Request) -> Health | Response:
    """Check that requests can be served. The store must be writable, and the server must not be
    stopping."""
    service = service_of(request)
    if service.is_stopping:
        return problem_response(503, "server.stopping", "the server is stopping")
    try:
        async with asyncio.timeout(_PATIENCE_S):
            desk = await service.tenant_service()
            await desk.check_writable()
    except StoreReadOnly as exc:
        return problem_response(503, exc.code, "the store is read-only")
    except EkidenError as exc:
        return problem_response(503, exc.code, "the store is not writable")
    except TimeoutError:
        return problem_response(503, StoreUnavailable.code, "the store does not answer")
    if not desk.is_working:
        return problem_response(503, "server.worker", "no worker runs sessions here")
    return Health(status="ok", version=__version__)


metrics_router = APIRouter(tags=["health"])


@metrics_router.get("/metrics", response_class=PlainTextResponse, responses=problems(404))
async def metrics(request: Request, desk: Administers) -> Response:
    """Get metrics in the format of Prometheus: counters since the server's start, and current
    backlogs."""
    if desk.tenant != DEFAULT_TENANT:
        raise NotServed("there are no metrics here: only the operator of the server sees them")
    found: Metrics = request.app.state.metrics
    page = await found.collect(service_of(request).tenant_services.values())
    return Response(page, media_type=CONTENT_TYPE)


login_router = APIRouter(tags=["console"])


class LoginBody(BaseModel):
    """Request body for a login."""

    model_config = ConfigDict(extra="forbid")

    key: str = Field(
        min_length=1, max_length=200, description="A key, as `ekiden keys create` made it."
    )


class MeModel(BaseModel):
    """Facts about the caller and the server."""

    name: str = Field(description="The name of the key; `local` for a local caller without a key.")
    tenant: str
    scopes: list[Scope] = Field(description="All scopes of the caller, sorted.")
    local: bool = Field(description="Whether the caller is on this machine, without a key.")
    csrf_token: str | None = Field(
        description="The value of `X-CSRF-Token` for requests with the cookie that change "
        "something; null without a cookie."
    )
    version: str = Field(description="The version of Ekiden.")
    console: bool = Field(description="Whether this server has the console at `/`.")


@login_router.post("/login", response_model=MeModel)
async def log_in(request: Request, body: LoginBody) -> Response:
    """Log a browser in. The browser keeps a token, not the key, in a cookie that no script can
    read.

    For one month, the cookie works like the key in a header. The login ends earlier with a logout,
    or if the key is revoked. Requests that change something also need `X-CSRF-Token`.
    """
    caller, token = await _authorization(request).log_in(request, body.key.strip())
    request.state.caller = caller
    response = answer(_me(request, caller, csrf_token(token)))
    keep_login(response, token, request)
    return response


@login_router.post("/logout", status_code=204, response_class=Response)
async def log_out(caller: TheCaller, request: Request) -> Response:
    """End the browser's login. Copies of its cookie also become invalid. The key stays valid."""
    await _authorization(request).log_out(caller)
    response = Response(status_code=204)
    forget_login(response, request.headers)
    return response


@login_router.get("/me", response_model=MeModel)
async def get_me(caller: TheCaller, request: Request) -> Response:
    """Get the caller and the caller's scopes."""
    return answer(_me(request, caller, getattr(request.state, "csrf_token", None)))


def _authorization(request: Request) -> KeyAuthorization:
    found: KeyAuthorization = request.app.state.key_gate
    return found


def _me(request: Request, caller: Caller, token: str | None) -> dict[str, Any]:
    return {
        "name": caller.name,
        "tenant": caller.tenant,
        "scopes": sorted(scope for scope in SCOPES if caller.may(scope)),
        "local": caller.key_id is None,
        "csrf_token": token,
        "version": __version__,
        "console": request.app.state.has_console,
    }
