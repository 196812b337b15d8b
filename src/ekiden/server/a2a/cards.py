"""Agent cards: what the team and each of its agents can do, and how to talk with them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from urllib.parse import quote

from a2a.types import (
    AgentCapabilities,
    AgentCard,
    AgentInterface,
    AgentSkill,
    HTTPAuthSecurityScheme,
    SecurityRequirement,
    SecurityScheme,
    StringList,
)
from a2a.utils.constants import PROTOCOL_VERSION_0_3, PROTOCOL_VERSION_1_0, TransportProtocol

from ekiden import __version__
from ekiden.core.agent import Agent
from ekiden.core.team import Team
from ekiden.server.a2a.values import JSON, TEXT, clean

_KEY = "key"


def listed(team: Team) -> list[Agent[Any]]:
    """The agents that are shown: all but those of the system, and routers."""
    return [agent for agent in team if agent.scope != "system" and not agent.traits.passes_on]


def team_card(team: Team, base: str) -> AgentCard:
    """The card of the team; each agent is a skill of it."""
    agents = listed(team)
    names = ", ".join(agent.title or agent.name for agent in agents)
    return _card(
        name="Ekiden",
        description=f"A team of agents that hand work to each other: {names}.",
        url=f"{base}/a2a",
        skills=[_skill(agent) for agent in agents],
    )


def agent_card(agent: Agent[Any], base: str) -> AgentCard:
    """The card of one agent; whom it hands the conversation to is its own affair."""
    return _card(
        name=agent.title or agent.name,
        description=_about(agent),
        url=f"{base}/a2a/{quote(agent.name, safe='')}",
        skills=list(_skills(agent)),
    )


def _card(*, name: str, description: str, url: str, skills: Iterable[AgentSkill]) -> AgentCard:
    scheme = HTTPAuthSecurityScheme(
        scheme="Bearer",
        description="An API key of this server: with the scope `run` to send messages and cancel "
        "tasks, `read` to look at tasks, `answer` to decide what people are asked.",
    )
    return AgentCard(
        name=clean(name),
        description=clean(description),
        version=__version__,
        supported_interfaces=[
            AgentInterface(url=url, protocol_binding=binding, protocol_version=version)
            for binding, version in (
                (TransportProtocol.JSONRPC, PROTOCOL_VERSION_1_0),
                (TransportProtocol.HTTP_JSON, PROTOCOL_VERSION_1_0),
                (TransportProtocol.JSONRPC, PROTOCOL_VERSION_0_3),
            )
        ],
        capabilities=AgentCapabilities(streaming=True, push_notifications=False),
        security_schemes={_KEY: SecurityScheme(http_auth_security_scheme=scheme)},
        security_requirements=[SecurityRequirement(schemes={_KEY: StringList()})],
        default_input_modes=[TEXT, JSON],
        default_output_modes=[TEXT, JSON],
        skills=skills,
    )


def _about(agent: Agent[Any]) -> str:
    said = agent.description or agent.handoff_description
    return said or f"The agent {agent.name} of a team."


def _skill(agent: Agent[Any]) -> AgentSkill:
    tags = [*agent.triggers.keywords, *(each.name for each in agent.capabilities)] or [agent.name]
    return AgentSkill(
        id=clean(agent.name),
        name=clean(agent.title or agent.name),
        description=clean(_about(agent)),
        tags=[clean(tag) for tag in dict.fromkeys(tags)],
        examples=[clean(each) for each in agent.triggers.examples],
    )


def _skills(agent: Agent[Any]) -> Iterable[AgentSkill]:
    """One for each capability, or one for the agent as a whole."""
    if not agent.capabilities:
        yield _skill(agent)
    for each in agent.capabilities:
        yield AgentSkill(
            id=clean(each.name),
            name=clean(each.name),
            description=clean(each.description or each.name),
            tags=[clean(tag) for tag in (*each.tags, *agent.triggers.keywords)]
            or [clean(each.name)],
            examples=[clean(text) for text in agent.triggers.examples],
        )
