"""`/v1/models`: the team, and each of its agents, as models that can be talked to."""

from __future__ import annotations

from typing import Annotated, Final

from fastapi import APIRouter, Path
from pydantic import BaseModel

from ekiden.core.agent import Team
from ekiden.integrations.openai_api.errors import BadRequest, OpenAIRoute, errors
from ekiden.project.service import TenantService
from ekiden.server.access.access import Reads

router = APIRouter(tags=["openai"], route_class=OpenAIRoute)

TEAM: Final = "ekiden"
"""The team, whatever its own name is."""
AUTO: Final = "auto"


class OpenAIModel(BaseModel):
    """Somebody to talk to."""

    id: str
    object: str = "model"
    created: int = 0
    owned_by: str = TEAM


class OpenAIModelList(BaseModel):
    """Everybody."""

    object: str = "list"
    data: list[OpenAIModel]


def model_ids(team: Team) -> list[str]:
    """The names under which the team and its agents can be talked to; the team's first."""
    names = [TEAM, team.name, *(agent.name for agent in team if not agent.traits.passes_on)]
    return list(dict.fromkeys(names))


def addressee_of(desk: TenantService, model: str) -> str | None:
    """Whom a message goes to: an agent, the router (`auto`), or whoever has the session (`None`).

    The team's name, or `ekiden`, is for the team: a new conversation begins with its entry or
    router, and one that goes on stays with who has it. An agent's name is that agent, each time.
    """
    team = desk.team
    if model in team:
        return model
    if model == AUTO and team.router is not None:
        return AUTO
    if model in (TEAM, team.name):
        return None
    known = ", ".join(model_ids(team))
    raise BadRequest(
        f"the model {model[:80]!r} does not exist; known: {known[:2000]}",
        param="model",
        code="model_not_found",
        status=404,
    )


@router.get("/models", response_model=OpenAIModelList)
async def list_models(desk: Reads) -> OpenAIModelList:
    """The team and its agents."""
    return OpenAIModelList(data=[OpenAIModel(id=name) for name in model_ids(desk.team)])


@router.get("/models/{model}", response_model=OpenAIModel, responses=errors(404))
async def retrieve_model(
    desk: Reads,
    model: Annotated[str, Path(max_length=200, description="As the list has it.")],
) -> OpenAIModel:
    """One of them."""
    addressee_of(desk, model)
    return OpenAIModel(id=model)
