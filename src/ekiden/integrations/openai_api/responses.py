"""`/v1/responses`: the team behind OpenAI's newer interface.

A response is a run; `previous_response_id` and `conversation` continue its session. A decision for
a person is an item `mcp_approval_request`. An item `mcp_approval_response` in the next request is
the answer, if the key has the scope `answer`: the run resumes, and its rest is a new response.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Collection
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Annotated, Any, TypeAlias

from fastapi import APIRouter, Path, Query, Request
from starlette.responses import Response

from ekiden.core.errors import SessionError
from ekiden.core.errors.server import RunNotFound
from ekiden.core.runs import Run
from ekiden.core.values import dumps
from ekiden.integrations.openai_api.bodies import (
    RESPONSE_REFUSED,
    ResponseRequest,
    SessionHeader,
    ShowHeader,
    refuse,
    refuse_form,
    shows,
)
from ekiden.integrations.openai_api.errors import BadRequest, OpenAIRoute, errors, unsupported
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
from ekiden.project.runs.stored_runs import questions_to_people
from ekiden.project.runs.tasks import RunOrder
from ekiden.project.service import TenantService
from ekiden.runtime.history.deletion import delete_session
from ekiden.server.access.access import Caller
from ekiden.server.answers import Administers, Reads, Starts, TheCaller
from ekiden.server.streams.decisions import check_asked, decide
from ekiden.server.streams.follow import FollowedRun, await_more, begin_run
from ekiden.server.streams.messages import without_undone_items
from ekiden.server.streams.sse import BEAT, EVENT_STREAM, Streams
from ekiden.sessions.progress import run_number

router = APIRouter(prefix="/responses", tags=["openai"], route_class=OpenAIRoute)

Id: TypeAlias = Annotated[
    str, Path(min_length=6, max_length=200, description="The id of a response.")
]

_ENDS = {"completed": "completed", "failed": "failed"}


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
    desk: Starts,
    caller: TheCaller,
    body: ResponseRequest,
    request: Request,
    x_ekiden_session: SessionHeader = None,
    x_ekiden_show: ShowHeader = None,
) -> Response:
    """Send a message to the team, or answer its questions, and get the response.

    `previous_response_id`, `conversation`, `metadata.session_id` or `X-Ekiden-Session` continue a
    session; you can continue only from its last response. With `background`, the response is sent
    at once. Use `GET` to read its status later. A new message in a session that waits for people
    withdraws the open questions. To answer a question, send an item of the type
    `mcp_approval_response`.

    Everything is stored, so `store: false` is refused. Client-side tools and response formats are
    refused too. `instructions` stay in the session as quoted data of the user; with the scope
    `history` they are stored as a developer message. All other items that are not user messages are
    treated in the same way. Model settings have no effect, because agents have their own settings.
    `X-Ekiden-Ignored` names the ignored parameters.
    """
    refuse(body.sent(), RESPONSE_REFUSED)
    refuse_form(body.sent())
    given = read_response_input(body.input, body.instructions)
    streams: Streams = request.app.state.streams
    if body.stream:
        streams.check_room()
    work = await _begin(desk, caller, body, given, x_ekiden_session)
    asked = RequestEcho(
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
        told = _events(desk, work, asked, show, beat_s=streams.heartbeat_s)
        return streams.response(told, headers)
    if body.background:
        work.followed.close()
    else:
        await work.followed.events(timeout_s=request.app.state.config.wait_s)
    found = await _read(desk, work.id, asked, show)
    return Response(dumps(found), headers=headers, media_type="application/json")


@router.get("/{response_id}", response_model=OpenAIResponse, responses=errors(404))
async def retrieve_response(
    desk: Reads,
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
    """Get a response with its current status, and with everything that its run has done so far."""
    if stream:
        raise unsupported("stream", "GET /api/v1/runs/{run_id}/events streams a run, at any time")
    asked = RequestEcho(model=TEAM, metadata={})
    return await _read(desk, ResponseId.parse(response_id), asked, shows(x_ekiden_show))


@router.post("/{response_id}/cancel", response_model=OpenAIResponse, responses=errors(404))
async def cancel_response(desk: Starts, response_id: Id) -> Any:
    """Stop the run and keep its work. A finished run does not change."""
    found = ResponseId.parse(response_id)
    await desk.runs.cancel(found.run_id)
    return await _read(desk, found, RequestEcho(model=TEAM, metadata={}), ())


@router.delete("/{response_id}", response_model=DeletedResponse, responses=errors(404))
async def delete_response(desk: Administers, response_id: Id) -> DeletedResponse:
    """Delete the session of a response, if the session contains only this response."""
    found = ResponseId.parse(response_id)
    last = await desk.runs.read(found.run_id)
    row = await desk.store.get(found.session_id)
    if run_number(row) > 1:
        raise BadRequest(
            f"the response is part of a conversation: remove it as a whole, with "
            f"DELETE /api/v1/sessions/{last.session_id}",
            code="response_in_conversation",
            status=409,
        )
    await delete_session(desk.store, found.session_id)
    return DeletedResponse(id=response_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Work:
    """A run that makes a response."""

    id: ResponseId
    followed: FollowedRun


async def _begin(
    desk: TenantService,
    caller: Caller,
    body: ResponseRequest,
    given: ResponseInput,
    header: str | None,
) -> _Work:
    session_id = _session_of(body, header)
    if body.previous_response_id is not None:
        session_id = (await _previous(desk, body.previous_response_id)).session_id
    if given.verdicts:
        return await _answer(desk, caller, given.verdicts, session_id)
    followed = await begin_run(
        desk,
        RunOrder(
            input=given.items,
            session_id=session_id,
            to=addressee_of(desk, body.model),
            user_id=body.user_id,
            may_write_history=caller.may("history"),
        ),
        live=bool(body.stream),
    )
    return _Work(id=ResponseId(run_id=followed.run_id), followed=followed)


def _session_of(body: ResponseRequest, header: str | None) -> str | None:
    """The session that the request names beside a previous response."""
    named = body.conversation.get("id") if isinstance(body.conversation, dict) else None
    if isinstance(body.conversation, str):
        named = body.conversation
    if body.conversation is not None and not isinstance(named, str):
        raise BadRequest("a conversation is its id, or an object with `id`", param="conversation")
    if named is not None and body.previous_response_id is not None:
        raise BadRequest(
            "name a conversation or a previous response, not both", param="previous_response_id"
        )
    in_metadata = (body.metadata or {}).get("session_id")
    found = named or header or in_metadata
    return found if isinstance(found, str) and found else None


async def _previous(desk: TenantService, response_id: str) -> ResponseId:
    """The response that is gone on with; `BadRequest` if it is not there, or not the last."""
    try:
        found = ResponseId.parse(response_id)
        await desk.runs.read(found.run_id)
    except (RunNotFound, SessionError):
        raise BadRequest(
            f"no response is called {response_id[:80]!r}",
            param="previous_response_id",
            code="previous_response_not_found",
            status=404,
        ) from None
    last = await last_run(desk, found.session_id)
    if last is not None and last.run_id != found.run_id:
        raise BadRequest(
            f"the conversation continued after this response: continue with resp_{last.run_id}",
            param="previous_response_id",
            code="response_superseded",
        )
    return found


async def _answer(
    desk: TenantService,
    caller: Caller,
    verdicts: Collection[ApprovalAnswer],
    session_id: str | None,
) -> _Work:
    """Give the answers, and follow the run that goes on with them."""
    items = [await desk.inbox.get(verdict.item_id) for verdict in verdicts]
    session_id = session_id or items[0].session_id
    last = None if session_id is None else await last_run(desk, session_id)
    if session_id is None or last is None:
        raise BadRequest("this answer is not awaited", param="input")
    await check_asked(desk, session_id, [each.item_id for each in verdicts])
    followed = await await_more(desk, last.run_id)
    try:
        for each in verdicts:
            await decide(desk, caller, each.item_id, approve=each.approve, text=each.reason)
    except BaseException:
        followed.close()
        raise
    part = ResponseId(run_id=last.run_id, after=followed.after)
    return _Work(id=part, followed=followed)


async def _read(
    desk: TenantService, response_id: ResponseId, asked: RequestEcho, show: Collection[str]
) -> dict[str, Any]:
    """The response as it stands."""
    run = await desk.runs.read(response_id.run_id)
    output = await _output(desk, response_id, show)
    for event in without_undone_items(
        await events_of_run(desk, response_id.run_id, after=response_id.after)
    ):
        for _ in output.take(event):
            pass
    for _ in await _endings(desk, run, output):
        pass
    return response_object(response_id, run, output.items, asked)


async def _output(
    desk: TenantService, response_id: ResponseId, show: Collection[str]
) -> ResponseOutput:
    output = ResponseOutput(str(response_id), show=show)
    if show and response_id.after:
        events = await events_of_run(desk, response_id.run_id)
        output.know(event for event in events if event.seq <= response_id.after)
    return output


async def _endings(desk: TenantService, run: Run, output: ResponseOutput) -> list[dict[str, Any]]:
    """What is told at the end, beside what agents said."""
    if run.questions:
        questions = await questions_to_people(desk.store, run.session_id)
        return list(output.ask(questions))
    has_said = any(item["type"] == "message" for item in output.items)
    if run.status == "done" and not has_said and run.output is not None:
        said = run.output
        return list(output.say(said if isinstance(said, str) else dumps(said)))
    return []


async def _events(
    desk: TenantService, work: _Work, asked: RequestEcho, show: Collection[str], *, beat_s: float
) -> AsyncGenerator[bytes, None]:
    """The events of a stream, numbered."""
    number = 0

    def sent(told: dict[str, Any]) -> bytes:
        nonlocal number
        body = dumps({**told, "sequence_number": number})
        number += 1
        return f"event: {told['type']}\ndata: {body}\n\n".encode()

    output = await _output(desk, work.id, show)
    try:
        run = replace(await work.followed.read(), status="running")
        begun = response_object(work.id, run, [], asked)
        yield sent({"type": "response.created", "response": begun})
        yield sent({"type": "response.in_progress", "response": begun})
        async with aclosing(work.followed.shown(beat_s=beat_s)) as stream:
            async for shown in stream:
                if shown is None:
                    yield BEAT
                    continue
                for told in output.take(shown):
                    yield sent(told)
    finally:
        work.followed.close()
    run = await work.followed.read()
    for told in await _endings(desk, run, output):
        yield sent(told)
    status = response_status(run)
    if status in ("queued", "in_progress"):
        stopping = "the server is stopping, and the run continues: GET the response later"
        yield sent({"type": "error", "code": "server.stopping", "message": stopping, "param": None})
        return
    kind = f"response.{_ENDS.get(status, 'incomplete')}"
    yield sent({"type": kind, "response": response_object(work.id, run, output.items, asked)})


def _is_short(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= 512
