"""`/collaborations`: agents that agree on work."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from fastapi import APIRouter, Path, Query, Response

from ekiden.api.texts import SESSION_ID
from ekiden.app.desk import Desk
from ekiden.bus import Bus
from ekiden.collaboration import Collaboration, Collaborations, Party
from ekiden.server.access import Administers, Reads
from ekiden.server.answers import answer, page
from ekiden.server.models.collaborations import (
    Acceptance,
    Acknowledgement,
    Choice,
    CollaborationModel,
    Counter,
    NewBid,
    NewCall,
    NewCollaboration,
    NewMove,
    NewProposal,
    NewRequest,
    PhaseName,
    Rejection,
)
from ekiden.server.paging import PAGE, Limit, Page
from ekiden.server.params import word
from ekiden.server.problems import problems

router = APIRouter(prefix="/collaborations", tags=["collaborations"])

CollaborationId: TypeAlias = Annotated[
    str,
    Path(
        min_length=1,
        max_length=128,
        pattern=SESSION_ID,
        description="The collaboration's id.",
    ),
]


@router.get("", response_model=Page[CollaborationModel])
async def list_collaborations(
    desk: Reads,
    agent: Annotated[str | None, word("Only those in which this agent takes part.")] = None,
    phase: Annotated[
        list[PhaseName] | None, Query(max_length=7, description="Only those in these phases.")
    ] = None,
    limit: Limit = PAGE,
    cursor: Annotated[
        str | None, word("`next_cursor` of the page before; none for the first.", most=128)
    ] = None,
) -> Response:
    """List collaborations, the oldest first."""
    found = await _of(desk).list(agent=agent, phases=phase, after=cursor or "", limit=limit + 1)
    more = found[limit - 1].id if len(found) > limit else None
    return page([each.to_json() for each in found[:limit]], more)


@router.get("/{collaboration_id}", response_model=CollaborationModel, responses=problems(404, 409))
async def get_collaboration(desk: Reads, collaboration_id: CollaborationId) -> Response:
    """A collaboration as it stands, with everything that was said in it."""
    return answer((await _of(desk).get(collaboration_id)).to_json())


@router.post(
    "",
    status_code=201,
    response_model=CollaborationModel,
    responses=problems(404, 409, 413),
)
async def begin_collaboration(desk: Administers, body: NewCollaboration) -> Response:
    """Begin a collaboration in the name of an agent of the team, which needs the scope `admin`.

    The others find it in their mailboxes. What is agreed is executed by whoever runs
    `Collaborations` with an executor on the same store.
    """
    party = _of(desk).as_agent(desk.team[body.agent].name)
    begun = await _begun(desk, party, body)
    headers = {"Location": f"/api/v1/collaborations/{begun.id}"}
    return answer(begun.to_json(), 201, headers=headers)


@router.post(
    "/{collaboration_id}/moves",
    response_model=CollaborationModel,
    responses=problems(404, 409, 413),
)
async def move_collaboration(
    desk: Administers, collaboration_id: CollaborationId, body: NewMove
) -> Response:
    """Say something in a collaboration in the name of an agent, which needs the scope `admin`.

    409 for what does not fit: the phase, the turn, terms that are not on the table any more.
    """
    party = _of(desk).as_agent(body.agent)
    return answer((await _moved(party, collaboration_id, body)).to_json())


def _of(desk: Desk) -> Collaborations:
    return Collaborations(Bus(desk.store))


async def _begun(desk: Desk, party: Party, body: NewCollaboration) -> Collaboration:
    match body:
        case NewRequest():
            return await party.request_handoff(
                body.target,
                body.task,
                body.requirements,
                context=body.context,
                deadline_s=body.deadline_s,
                key=body.key,
            )
        case NewProposal():
            return await party.propose(
                body.target,
                body.terms,
                context=body.context,
                deadline_s=body.deadline_s,
                max_rounds=body.max_rounds,
                key=body.key,
            )
        case NewCall():
            others = [name for name in sorted(desk.project.agents) if name != party.name]
            return await party.call(
                body.capabilities,
                task=body.task,
                participants=body.participants or others,
                requirements=body.requirements,
                context=body.context,
                deadline_s=body.deadline_s,
                key=body.key,
            )


async def _moved(party: Party, found: str, body: NewMove) -> Collaboration:
    key = body.key
    match body:
        case Acknowledgement():
            return await party.acknowledge(found, key=key)
        case Acceptance():
            return await party.accept(found, body.version, key=key)
        case Rejection(move="reject"):
            return await party.reject(found, reason=body.reason, key=key)
        case Rejection(move="decline"):
            return await party.decline(found, reason=body.reason, key=key)
        case Rejection():
            return await party.cancel(found, reason=body.reason, key=key)
        case Counter():
            return await party.counter(
                found, body.terms, answers=body.version, reason=body.reason, key=key
            )
        case NewBid():
            return await party.bid(found, body.score, offer=body.offer, key=key)
        case Choice(move="award"):
            return await party.award(found, body.bidder, key=key)
        case Choice():
            return await party.select(found, body.bidder, key=key)
