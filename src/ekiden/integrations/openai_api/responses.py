"""Serves the team at `/v1/responses`, OpenAI's Responses API, and installs all routes.

A response is a run. `previous_response_id` and `conversation` continue the session of the run. A
question to a person is an item `mcp_approval_request`. If the key has the scope `answer`, an item
`mcp_approval_response` in the next request answers the question. Then the run resumes, and the rest
of the run is a new response.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Collection, Mapping
from contextlib import aclosing
from dataclasses import dataclass, replace
from functools import cache
from typing import Annotated, Any, TypeAlias

from fastapi import APIRouter, FastAPI, Path, Query, Request
from starlette.responses import Response
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from ekiden.core.errors import EkidenError, SessionError
from ekiden.core.errors.server import RunNotFound
from ekiden.core.runs import Run
from ekiden.core.values import dumps
from ekiden.integrations.openai_api import chat, responses, turns
from ekiden.integrations.openai_api.bodies import (
    EVERYWHERE,
    RESPONSE_REFUSED,
    BadRequest,
    OpenAIRoute,
    ResponseRequest,
    SessionHeader,
    ShowHeader,
    error_body,
    errors,
    refuse,
    refuse_form,
    shows,
    unsupported,
)
from ekiden.integrations.openai_api.response_items import (
    ApprovalAnswer,
    DeletedResponse,
    OpenAIResponse,
    RequestEcho,
    ResponseId,
    ResponseInput,
    ResponseOutput,
    read_response_input,
    response_object,
    response_status,
)
from ekiden.integrations.openai_api.turns import TEAM, addressee_of, events_of_run, last_run
from ekiden.project.run_tasks import RunOrder
from ekiden.project.service import TenantService
from ekiden.project.stored_runs import questions_to_people
from ekiden.runtime.history.deletion import delete_session
from ekiden.server.access import Caller
from ekiden.server.answers import Administers, Reads, Starts, TheCaller, grouped
from ekiden.server.problems import Reshaping
from ekiden.server.streams.follow import (
    FollowedRun,
    await_more,
    begin_run,
    check_asked,
    decide,
    without_undone_items,
)
from ekiden.server.streams.live import BEAT, EVENT_STREAM, Streams, cut_off
from ekiden.sessions.session import run_number

router = APIRouter(prefix="/responses", tags=["openai"], route_class=OpenAIRoute)

Id: TypeAlias = Annotated[
    str, Path(min_length=6, max_length=200, description="The id of a response.")
]


@router.post(
    "",
    response_model=OpenAIResponse,
    responses={
        200: {
            "description": "The response. With `stream`, its events as they happen.",
            "content": EVENT_STREAM,
        },
        **errors(404),
    },
)
async def create_response(
    tenant: Starts,
    caller: TheCaller,
    body: ResponseRequest,
    request: Request,
    x_ekiden_session: SessionHeader = None,
    x_ekiden_show: ShowHeader = None,
) -> Response:
    """Send a message to the team, or answer its questions, and get the response.

    `previous_response_id`, `conversation`, `metadata.session_id` or `X-Ekiden-Session` continue a
    session. You can continue a session only from its last response. With `background`, the response
    is sent at once. Use `GET` to read the status of the response later. A new message in a session
    that waits for people withdraws the open questions. To answer a question, send an item of the
    type `mcp_approval_response`.

    Everything is stored, so `store: false` is refused. Client-side tools and response formats are
    also refused. `instructions` are stored in the session as quoted data of the user. With the
    scope `history`, they are stored as a developer message. All other items that are not user
    messages are treated in the same way. Model settings have no effect, because agents have their
    own settings. `X-Ekiden-Ignored` names the ignored parameters.
    """
    refuse(body.sent(), RESPONSE_REFUSED)
    refuse_form(body.sent())
    given = read_response_input(body.input, body.instructions)
    streams: Streams = request.app.state.streams
    if body.stream:
        streams.check_room()
    work = await _begin(tenant, caller, body, given, x_ekiden_session)
    echo = RequestEcho(
        model=body.model,
        previous=body.previous_response_id,
        instructions=body.instructions,
        background=bool(body.background),
        metadata={name: each for name, each in (body.metadata or {}).items() if _is_short(each)},
    )
    headers = {"X-Ekiden-Session": work.id.session_id, "X-Ekiden-Run": work.id.run_id}
    if body.ignored():
        headers["X-Ekiden-Ignored"] = ", ".join(body.ignored())
    show = shows(x_ekiden_show)
    if body.stream:
        events = _stream(tenant, work, echo, show, beat_s=streams.heartbeat_s)
        return streams.response(events, headers)
    if body.background:
        work.followed.close()
    else:
        await work.followed.events(timeout_s=request.app.state.config.wait_s)
    found = await _read(tenant, work.id, echo, show)
    return Response(dumps(found), headers=headers, media_type="application/json")


@router.get("/{response_id}", response_model=OpenAIResponse, responses=errors(404))
async def retrieve_response(
    tenant: Reads,
    response_id: Id,
    stream: Annotated[
        bool,
        Query(
            description="Must be false. Use the path for events to stream a run.",
            json_schema_extra={"enum": [False]},
        ),
    ] = False,
    x_ekiden_show: ShowHeader = None,
) -> Any:
    """Get a response with its current status, and with all output of its run so far."""
    if stream:
        raise unsupported("stream", "GET /api/v1/runs/{run_id}/events streams a run, at any time")
    echo = RequestEcho(model=TEAM, metadata={})
    return await _read(tenant, ResponseId.parse(response_id), echo, shows(x_ekiden_show))


@router.post("/{response_id}/cancel", response_model=OpenAIResponse, responses=errors(404))
async def cancel_response(tenant: Starts, response_id: Id) -> Any:
    """Stop the run and keep its work. A finished run does not change."""
    found = ResponseId.parse(response_id)
    await tenant.runs.cancel(found.run_id)
    return await _read(tenant, found, RequestEcho(model=TEAM, metadata={}), ())


@router.delete("/{response_id}", response_model=DeletedResponse, responses=errors(404))
async def delete_response(tenant: Administers, response_id: Id) -> DeletedResponse:
    """Delete the session of a response, if the session contains only this response."""
    found = ResponseId.parse(response_id)
    last = await tenant.runs.read(found.run_id)
    row = await tenant.store.get(found.session_id)
    if run_number(row) > 1:
        raise BadRequest(
            f"the response is part of a conversation: remove it as a whole, with "
            f"DELETE /api/v1/sessions/{last.session_id}",
            code="response_in_conversation",
            status=409,
        )
    await delete_session(tenant.store, found.session_id)
    return DeletedResponse(id=response_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Work:
    """The run of a response, which is followed."""

    id: ResponseId
    followed: FollowedRun


async def _begin(
    tenant: TenantService,
    caller: Caller,
    body: ResponseRequest,
    given: ResponseInput,
    header: str | None,
) -> _Work:
    session_id = _session_of(body, header)
    if body.previous_response_id is not None:
        session_id = (await _previous(tenant, body.previous_response_id)).session_id
    if given.answers:
        return await _answer(tenant, caller, given.answers, session_id)
    followed = await begin_run(
        tenant,
        RunOrder(
            input=given.items,
            session_id=session_id,
            to=addressee_of(tenant, body.model),
            user_id=body.user_id,
            may_write_history=caller.may("history"),
        ),
        live=bool(body.stream),
    )
    return _Work(id=ResponseId(run_id=followed.run_id), followed=followed)


def _session_of(body: ResponseRequest, header: str | None) -> str | None:
    """The session that the request names, other than by a previous response."""
    given = body.conversation
    conversation = given.get("id") if isinstance(given, dict) else given
    if given is not None and not isinstance(conversation, str):
        raise BadRequest("a conversation is its id, or an object with `id`", param="conversation")
    if conversation is not None and body.previous_response_id is not None:
        raise BadRequest(
            "name a conversation or a previous response, not both", param="previous_response_id"
        )
    found = conversation or header or (body.metadata or {}).get("session_id")
    return found if isinstance(found, str) and found else None


async def _previous(tenant: TenantService, response_id: str) -> ResponseId:
    """The response to continue. Raises `BadRequest` if it does not exist, or is not the last."""
    try:
        found = ResponseId.parse(response_id)
        await tenant.runs.read(found.run_id)
    except (RunNotFound, SessionError):
        raise BadRequest(
            f"no response is called {response_id[:80]!r}",
            param="previous_response_id",
            code="previous_response_not_found",
            status=404,
        ) from None
    last = await last_run(tenant, found.session_id)
    if last is not None and last.run_id != found.run_id:
        raise BadRequest(
            f"the conversation continued after this response: continue with resp_{last.run_id}",
            param="previous_response_id",
            code="response_superseded",
        )
    return found


async def _answer(
    tenant: TenantService,
    caller: Caller,
    answers: Collection[ApprovalAnswer],
    session_id: str | None,
) -> _Work:
    """Answer the questions, and follow the run that resumes."""
    items = [await tenant.inbox.get(answer.item_id) for answer in answers]
    session_id = session_id or items[0].session_id
    last = None if session_id is None else await last_run(tenant, session_id)
    if session_id is None or last is None:
        raise BadRequest("nothing waits for this answer", param="input")
    await check_asked(tenant, session_id, [each.item_id for each in answers])
    followed = await await_more(tenant, last.run_id)
    try:
        for each in answers:
            await decide(tenant, caller, each.item_id, approve=each.approve, text=each.reason)
    except BaseException:
        followed.close()
        raise
    part = ResponseId(run_id=last.run_id, after=followed.after)
    return _Work(id=part, followed=followed)


async def _read(
    tenant: TenantService, response_id: ResponseId, echo: RequestEcho, show: Collection[str]
) -> dict[str, Any]:
    """The response in its current state."""
    run = await tenant.runs.read(response_id.run_id)
    output = await _output(tenant, response_id, show)
    for event in without_undone_items(
        await events_of_run(tenant, response_id.run_id, after=response_id.after)
    ):
        for _ in output.take(event):
            pass
    for _ in await _endings(tenant, run, output):
        pass
    return response_object(response_id, run, output.items, echo)


async def _output(
    tenant: TenantService, response_id: ResponseId, show: Collection[str]
) -> ResponseOutput:
    output = ResponseOutput(str(response_id), show=show)
    if show and response_id.after:
        events = await events_of_run(tenant, response_id.run_id)
        output.know(event for event in events if event.seq <= response_id.after)
    return output


async def _endings(tenant: TenantService, run: Run, output: ResponseOutput) -> list[dict[str, Any]]:
    """The last events: questions to people, or the output if no agent sent a message."""
    if run.questions:
        questions = await questions_to_people(tenant.store, run.session_id)
        return list(output.ask(questions))
    has_message = any(item["type"] == "message" for item in output.items)
    if run.status == "done" and not has_message and run.output is not None:
        text = run.output if isinstance(run.output, str) else dumps(run.output)
        return list(output.say(text))
    return []


async def _stream(
    tenant: TenantService, work: _Work, echo: RequestEcho, show: Collection[str], *, beat_s: float
) -> AsyncGenerator[bytes, None]:
    """The numbered events of a response."""
    number = 0

    def sent(event: dict[str, Any]) -> bytes:
        nonlocal number
        body = dumps({**event, "sequence_number": number})
        number += 1
        return f"event: {event['type']}\ndata: {body}\n\n".encode()

    output = await _output(tenant, work.id, show)
    try:
        run = replace(await work.followed.read(), status="running")
        started = response_object(work.id, run, [], echo)
        yield sent({"type": "response.created", "response": started})
        yield sent({"type": "response.in_progress", "response": started})
        async with aclosing(work.followed.shown(beat_s=beat_s)) as stream:
            async for shown in stream:
                if shown is None:
                    yield BEAT
                    continue
                for event in output.take(shown):
                    yield sent(event)
        run = await work.followed.read()
        for event in await _endings(tenant, run, output):
            yield sent(event)
    except EkidenError as exc:
        reason = cut_off(str(work.id), exc)
        yield sent({"type": "error", "code": exc.code, "message": reason, "param": None})
        return
    finally:
        work.followed.close()
    status = response_status(run)
    if status in ("queued", "in_progress"):
        stopping = "the server is stopping, and the run continues: GET the response later"
        yield sent({"type": "error", "code": "server.stopping", "message": stopping, "param": None})
        return
    kind = status if status in ("completed", "failed") else "incomplete"
    response = response_object(work.id, run, output.items, echo)
    yield sent({"type": f"response.{kind}", "response": response})


def _is_short(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= 512


_PREFIX = "/v1/"


def install(app: FastAPI) -> None:
    """Add the routes of the OpenAI-compatible API to the server, with errors in OpenAI's format."""
    app.add_middleware(OpenAIErrorFormat)
    app.router.routes.extend(_routes())


@cache
def _routes() -> tuple[BaseRoute, ...]:
    return grouped(turns.router, chat.router, responses.router, prefix="/v1", responses=EVERYWHERE)


class OpenAIErrorFormat:
    """ASGI middleware: a problem response under `/v1` becomes an error in OpenAI's format."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"].startswith(_PREFIX):
            send = Reshaping(send, _reshape)
        await self._app(scope, receive, send)


def _reshape(status: int, problem: dict[str, Any]) -> tuple[int, Mapping[str, Any]]:
    status = 400 if status == 422 else status
    return status, error_body(problem["detail"], status=status, code=problem["code"])
