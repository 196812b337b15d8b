"""`/sessions/{id}/handoffs`, `/handoff` and `/answer`: who handed a session on; hand it on, and
answer one as a person."""

from __future__ import annotations

import asyncio
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from ekiden.app.handing import until_answered
from ekiden.app.records.handoff_endings import start_record
from ekiden.app.records.runs import ACTIVE, run_id_of
from ekiden.app.records.session_handoffs import MOST_WITH_VIEWS, session_handoffs
from ekiden.core.errors import SessionError, UnknownAgent
from ekiden.core.handoff_record import Actor
from ekiden.runtime.people import answer_case
from ekiden.server.access import Answers, Reads, Starts, TheCaller
from ekiden.server.answers import answer, page
from ekiden.server.deciding import decider
from ekiden.server.models.handoff import (
    HandoffView,
    NewSessionHandoff,
    PersonAnswer,
    SessionHandoffAnswer,
)
from ekiden.server.models.runs import RunModel
from ekiden.server.paging import PAGE, Limit, Page, SessionId
from ekiden.server.problems import problem_response, problems
from ekiden.server.routes.handoff import no_such_agent
from ekiden.server.routes.sessions import Place

router = APIRouter(prefix="/sessions", tags=["handoffs"])


@router.get("/{session_id}/handoffs", response_model=Page[HandoffView], responses=problems(404))
async def list_session_handoffs(
    desk: Reads,
    session_id: SessionId,
    limit: Limit = PAGE,
    cursor: Place = None,
    views: Annotated[
        bool,
        Query(
            description="Tell what each target was shown; then a page has at most "
            f"{MOST_WITH_VIEWS}. Without it, it is quicker."
        ),
    ] = True,
) -> Response:
    """List the handoffs of a session, the oldest first, with what each target was shown.

    Those that were refused, failed or undone are there, too; after the last one, beyond the limit,
    those that wait for whoever runs the session. Of runs that are not to be shown
    (`trace_include_sensitive_data=False`) there are no words.
    """
    await desk.store.get(session_id)
    start = 0 if cursor is None else int(cursor)
    found, end = await session_handoffs(
        desk.store, session_id, start=start, limit=limit, views=views
    )
    return page(found, None if end is None else str(end))


@router.post(
    "/{session_id}/handoff", response_model=SessionHandoffAnswer, responses=problems(404, 413)
)
async def hand_session_over(
    desk: Starts, caller: TheCaller, session_id: SessionId, body: NewSessionHandoff
) -> Response:
    """Hand a session to another agent, and let that work until it answers.

    A session that somebody runs is handed over by them: when the step is finished, or at once with
    the policy `immediate`. As with `POST /handoff/initiate`, a refusal is 200 with `error`, and an
    agent that does not exist 404. `output` is there once the agent has answered.
    """
    await desk.store.get(session_id)
    if body.to not in desk.team:
        return no_such_agent(UnknownAgent(body.to, known=[agent.name for agent in desk.team]))
    deadline = asyncio.get_running_loop().time() + body.wait_s
    result = await desk.controller.start(
        session_id,
        to=body.to,
        reason=body.reason,
        summary=body.summary,
        context=body.context,
        policy=body.policy,
        timeout_s=body.timeout_s,
        priority=body.priority,
        metadata=body.metadata,
        by=Actor(kind="program", name=caller.name),
        run=False,
        patience_s=body.wait_s,
    )
    result, end = await until_answered(desk, session_id, result, deadline=deadline)
    return answer(start_record(result, end))


@router.post(
    "/{session_id}/answer",
    response_model=RunModel,
    responses={
        202: {"model": RunModel, "description": "The answer is stored; the run goes on."},
        **problems(404, 409, 413),
    },
)
async def answer_session(
    desk: Answers, caller: TheCaller, request: Request, session_id: SessionId, body: PersonAnswer
) -> Response:
    """Answer, as a person, a session that was handed to people.

    The words are the answer of its run; with `back` they go to the agent that handed it over. 409
    if somebody else was quicker, or it does not wait for a person.
    """
    who = decider(caller, request, body.by)
    row = await desk.store.get(session_id)
    item = None
    if row.agent in desk.team and desk.team[row.agent].person is not None:
        item = await answer_case(desk.store, session_id, body.text, by=who, give_back=body.back)
    if item is None:
        return problem_response(409, SessionError.code, _not_waiting(session_id, row.agent))
    run_id = run_id_of(session_id, row.cursor["r"])
    record = await desk.runs.wait(run_id, timeout_s=body.wait_s)
    return answer(record, 202 if record["status"] in ACTIVE else 200)


def _not_waiting(session_id: str, agent: str) -> str:
    return (
        f"session {session_id!r} does not wait for a person: agent {agent!r} has it; send it a "
        "message, or hand the session to people first"
    )
