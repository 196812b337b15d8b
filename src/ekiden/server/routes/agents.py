"""`/agents`: who is there, what they can do, and what they do now."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from fastapi import APIRouter, Path, Query, Response

from ekiden.api.texts import ONE_LINE, PLAIN
from ekiden.app.records.agents import agent_details, agent_record
from ekiden.app.records.presence import presences
from ekiden.bus.blocked import blocked
from ekiden.bus.deadlocks import deadlocks
from ekiden.server.access import Reads
from ekiden.server.answers import answer, page
from ekiden.server.models.agents import AgentDetail, AgentModel, DeadlockModel, PresenceModel
from ekiden.server.paging import PAGE, Limit, Page
from ekiden.server.problems import problems

router = APIRouter(prefix="/agents", tags=["agents"])

AgentName: TypeAlias = Annotated[
    str,
    Path(
        min_length=1,
        max_length=201,
        pattern=ONE_LINE,
        description="The agent's name; with an @ before it, it is never one of the words that "
        "stand here besides.",
    ),
]


@router.get("", response_model=Page[AgentModel])
async def list_agents(desk: Reads) -> Response:
    """List the agents, all of them: what each is for, what it may use and hand to."""
    project = desk.project
    agents = sorted(project.agents.values(), key=lambda agent: agent.name)
    return page([agent_record(project, agent) for agent in agents])


@router.get("/ps", response_model=Page[PresenceModel])
async def list_presences(
    desk: Reads,
    idle: Annotated[
        bool,
        Query(
            description="Count sessions that nobody works on, too; without them it is much quicker "
            "in a large store."
        ),
    ] = True,
) -> Response:
    """Show how many sessions each agent has, who is running them, and who waits for whom.

    Agents that the team does not have are listed too, if they have sessions or wait.
    """
    project = desk.project
    found = await presences(
        desk.store,
        sorted(project.agents),
        router=project.router.agent.name,
        waits=await blocked(desk.store),
        idle=idle,
    )
    return page([each.to_json() for each in found])


@router.get("/deadlocks", response_model=Page[DeadlockModel])
async def list_deadlocks(
    desk: Reads,
    limit: Limit = PAGE,
    cursor: Annotated[
        str | None,
        Query(
            max_length=200,
            pattern=PLAIN,
            description="`next_cursor` of the page before; none for the first.",
        ),
    ] = None,
) -> Response:
    """List agents that wait, or waited, for each other in a circle, the newest first.

    Each was broken by letting one of them give up, the victim; one that nobody has broken yet
    comes before all others.
    """
    found = await deadlocks(desk.store, limit=limit + 1, after=cursor or "")
    shown = found[:limit]
    more = shown[-1].id if len(found) > limit and shown[-1].id else None
    return page([each.to_json() for each in shown], more)


@router.get("/{name}", response_model=AgentDetail, responses=problems(404))
async def get_agent(desk: Reads, name: AgentName) -> Response:
    """Everything about an agent, its transfer tools and its file included."""
    return answer(agent_details(desk.project, desk.team[name.removeprefix("@")]))
