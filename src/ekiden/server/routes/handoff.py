"""`/handoff`: hand tasks from agent to agent, and see what became of it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Annotated, TypeAlias

from fastapi import APIRouter, Depends, Path, Query, Response

from ekiden.api.local.place import moment_of
from ekiden.api.texts import CAPABILITIES, EVENT_CURSOR, ONE_LINE, SESSION_ID
from ekiden.app.desk import Desk
from ekiden.app.handing import until_settled
from ekiden.app.matching import capable, parse_names
from ekiden.app.records.handoff_endings import cancel_record
from ekiden.app.records.handoffs import read_details
from ekiden.core.errors import UnknownAgent
from ekiden.core.handoff_record import Actor, HandoffContext, HandoffRequest, HandoffResult
from ekiden.handoff.history_query import HandoffQuery, find_handoffs
from ekiden.server.access import Reads, Starts, TheCaller
from ekiden.server.answers import answer, page
from ekiden.server.models.handoff import (
    CancelAnswer,
    HandoffAnswer,
    HandoffDetail,
    HandoffModel,
    MatchModel,
    NewCancel,
    NewHandoff,
    PolicyName,
    StatusName,
)
from ekiden.server.paging import PAGE, Limit, Page, cursor_as
from ekiden.server.params import time, word
from ekiden.server.problems import problem_response, problems

router = APIRouter(prefix="/handoff", tags=["handoffs"])

_SETTLED = "handoff.settled"

HandoffId: TypeAlias = Annotated[
    str,
    Path(
        min_length=1,
        max_length=160,
        pattern=SESSION_ID,
        description="The handoff's id, or that of a request.",
    ),
]
EventCursor: TypeAlias = Annotated[str | None, cursor_as(rf"^{EVENT_CURSOR}$")]
AgentId: TypeAlias = Annotated[
    str, Path(min_length=1, max_length=200, pattern=ONE_LINE, description="The agent's name.")
]


@dataclass(frozen=True, kw_only=True)
class Filters:
    """Which handoffs; what is not given does not restrict."""

    session: Annotated[str | None, word("Only those of this session.", most=128)] = None
    source: Annotated[str | None, word("Only those that this agent made.")] = None
    target: Annotated[str | None, word("Only those to this agent.")] = None
    status: Annotated[StatusName | None, Query(description="Only those that stand there now.")] = (
        None
    )
    task: Annotated[str | None, word("Only those of this task.")] = None
    correlation: Annotated[str | None, word("Only those with this correlation id.")] = None
    policy: Annotated[PolicyName | None, Query(description="Only those with this policy.")] = None
    by: Annotated[
        str | None,
        word("Only those that this one wanted: model, trigger, person, program, or a name."),
    ] = None
    since: Annotated[str | None, time("From then on.")] = None
    until: Annotated[str | None, time("Before then.")] = None

    def query(self, agent: str | None) -> HandoffQuery:
        """What is asked; `RequestInvalid` for what is no time."""
        return HandoffQuery(
            agent=agent,
            source=self.source,
            target=self.target,
            task=self.task,
            correlation_id=self.correlation,
            status=self.status,
            session_id=self.session,
            policy=self.policy,
            by=self.by,
            since=moment_of(self.since, what="since"),
            until=moment_of(self.until, what="until"),
        )


Chosen: TypeAlias = Annotated[Filters, Depends()]


@router.post("/initiate", response_model=HandoffAnswer, responses=problems(404, 413))
async def initiate_handoff(desk: Starts, caller: TheCaller, body: NewHandoff) -> Response:
    """Hand a task from one agent to another, which then works on it.

    The answer is 200 also when the handoff is refused, or undone: `status` is `failed` or
    `rolled_back` then, and `error` says why. An agent that the team does not have is 404, with
    `refusal` `AGENT_NOT_FOUND`. It is waited for the target's confirmation for `wait_s` seconds at
    most; a `status` that is not final by then can be followed with `GET /handoff/{id}`. A task
    that somebody is working on is handed over by them: until then it is `initiated`.
    """
    for name in (body.source_agent_id, body.target_agent_id):
        if name not in desk.team:
            return no_such_agent(UnknownAgent(name, known=[agent.name for agent in desk.team]))
    request = HandoffRequest(
        id="",
        source=body.source_agent_id,
        target=body.target_agent_id,
        context=HandoffContext(
            task_id=body.task_id,
            task_state=body.task_state,
            conversation_history=[
                item.model_dump(exclude_unset=True) for item in body.conversation_history
            ],
            priority=body.priority,
            metadata=body.metadata,
        ),
        policy=body.policy,
        reason=body.reason,
        by=Actor(kind="program", name=caller.name),
    )
    deadline = asyncio.get_running_loop().time() + body.wait_s
    result = await desk.controller.initiate(request, run=False, patience_s=body.wait_s)
    return answer(_answer(await until_settled(desk, result, deadline=deadline)))


def no_such_agent(error: UnknownAgent) -> Response:
    """That an agent to hand over to, or from, is unknown."""
    return problem_response(404, error.code, str(error), {"refusal": "AGENT_NOT_FOUND"})


def _answer(result: HandoffResult) -> dict[str, object]:
    return {
        "handoff_id": result.request_id,
        "status": result.status,
        "source_agent_id": result.source,
        "target_agent_id": result.target,
        "error": None if result.error is None else result.error.to_json(),
    }


@router.get("", response_model=Page[HandoffModel], responses=problems())
async def list_handoffs(
    desk: Reads,
    filters: Chosen,
    agent: Annotated[str | None, word("Only those from or to this agent.")] = None,
    limit: Limit = PAGE,
    cursor: EventCursor = None,
) -> Response:
    """List handoffs, newest first; the first page has before all those that wait for whoever runs
    a session, beyond its limit."""
    return await _listed(desk, filters.query(agent), limit, cursor)


@router.get("/history/{agent_id}", response_model=Page[HandoffModel], responses=problems(404))
async def list_handoff_history(
    desk: Reads, agent_id: AgentId, filters: Chosen, limit: Limit = PAGE, cursor: EventCursor = None
) -> Response:
    """List the handoffs from and to an agent, newest first."""
    return await _listed(desk, filters.query(agent_id), limit, cursor)


async def _listed(desk: Desk, query: HandoffQuery, limit: int, cursor: str | None) -> Response:
    found = await find_handoffs(desk.store, query, limit=limit, cursor=cursor)
    return page([record.to_json() for record in found.records], found.next_cursor)


@router.get("/capability-match", response_model=Page[MatchModel], responses=problems(404))
async def match_capabilities(
    desk: Reads,
    capabilities: Annotated[
        str,
        Query(
            min_length=1,
            max_length=2000,
            pattern=CAPABILITIES,
            description="What is required, with commas between; `tag:NAME` is any capability with "
            "that tag.",
            examples=["refunds,invoices"],
        ),
    ],
    exclude: Annotated[str, word("Agents to leave out, with commas between.", most=4000)] = "",
    min_score: Annotated[
        float, Query(ge=0, le=1, description="The mean proficiency that is enough.")
    ] = 0.5,
) -> Response:
    """Find the agents that have certain capabilities, the best first; nobody is an empty list."""
    required = parse_names([capabilities])
    found = await asyncio.to_thread(capable, desk.project, required, exclude=parse_names([exclude]))
    return page([match.to_json() for match in found if match.score >= min_score])


@router.get("/{handoff_id}", response_model=HandoffDetail, responses=problems(404))
async def get_handoff(desk: Reads, handoff_id: HandoffId) -> Response:
    """Everything about a handoff: its moves, who wanted it and why, and what the agent saw.

    Of runs that are not to be shown (`trace_include_sensitive_data=False`) there are no words.
    """
    return answer((await read_details(desk.store, handoff_id)).to_json())


@router.post(
    "/{handoff_id}/cancel",
    response_model=CancelAnswer,
    responses={
        202: {"model": CancelAnswer, "description": "Whoever runs the session is asked for it."},
        **problems(404, 409),
    },
)
async def cancel_handoff(
    desk: Starts, caller: TheCaller, handoff_id: HandoffId, body: NewCancel | None = None
) -> Response:
    """Undo a handoff that is not confirmed, or withdraw one that was only asked for.

    200: it is undone, now or before. 202: whoever runs the session did not undo it in time; ask
    again. 409 (`handoff.settled`): it was confirmed, refused or undone for another reason, and
    stays as it is.
    """
    body = body or NewCancel()
    result = await desk.controller.cancel(
        handoff_id,
        reason=body.reason,
        by=Actor(kind="program", name=caller.name),
        patience_s=body.wait_s,
    )
    record = cancel_record(handoff_id, result)
    if result.error is not None and result.error.code == "CANCELLED":
        return answer(record)
    if result.completed_at is None and result.status != "rolled_back":
        return answer(record, 202)
    detail = f"handoff {handoff_id} is settled ({result.status}) and stays as it is"
    return problem_response(409, _SETTLED, detail, {"handoff": record})
