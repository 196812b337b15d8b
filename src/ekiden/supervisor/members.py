"""The descriptions of agents for decomposers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ekiden.core.agent import Agent
from ekiden.core.errors import UserError
from ekiden.core.plan import Member


def member_of(agent: Agent[Any]) -> Member:
    """The agent's description for the decomposer."""
    return Member(
        name=agent.name,
        description=agent.handoff_description or agent.description or agent.title or "",
        keywords=tuple(agent.triggers.keywords),
        patterns=tuple(agent.triggers.patterns),
        examples=tuple(agent.triggers.examples),
        capabilities=tuple(
            f"{each.name}: {each.description}" if each.description else each.name
            for each in agent.capabilities
        ),
    )


def members_of(agents: Iterable[Agent[Any]]) -> tuple[Member, ...]:
    """The descriptions of all members for the decomposer, in order."""
    return tuple(member_of(agent) for agent in agents)


def fallback_of(members: Sequence[Member], fallback: str | None) -> str:
    """The name of the member for tasks that fit no other: `fallback`, or else the last member."""
    if not members:
        raise UserError("there are no agents to give tasks to")
    if fallback is None:
        return members[-1].name
    if fallback not in {member.name for member in members}:
        raise UserError(f"the fallback {fallback!r:.80} is not among the agents that get tasks")
    return fallback
