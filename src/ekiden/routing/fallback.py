"""What happens to a request that no agent matches."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from ekiden.core.agent import Agent
from ekiden.core.errors import UserError
from ekiden.core.suggest import suggestion
from ekiden.routing.settings import RoutingSettings
from ekiden.routing.wording import plain_line

MAX_LISTED = 20
_DESCRIPTION_CHARS = 100


def check_default_agent(
    settings: RoutingSettings, agents: Mapping[str, Agent[Any]], system: Collection[str]
) -> None:
    """`UserError` if the fallback is a default agent that cannot be one."""
    if settings.fallback != "default_agent":
        return
    name = settings.default_agent
    known = ", ".join(sorted(agents)[:MAX_LISTED]) or "none"
    if name is None:
        raise UserError(
            "the fallback of routing is 'default_agent', but agents.routing.default_agent names "
            f"none; known: {known}"
        )
    if name in system:
        raise UserError(
            f"agents.routing.default_agent is {name!r}, a system agent, which gets no requests; "
            f"known: {known}"
        )
    if name not in agents:
        raise UserError(
            f"agents.routing.default_agent is {name!r}, but no agent is called so"
            f"{suggestion(name, agents)}; known: {known}"
        )


def question(agents: Sequence[Agent[Any]]) -> str:
    """What the person is told: whom there is, the likeliest first, and how to name one."""
    if not agents:
        return "There is no agent who could take this request."
    lines = [
        "No agent clearly matches this request. Name one at the beginning of a message, as in "
        f"`@{agents[0].name} …`:",
        *(_line(agent) for agent in agents[:MAX_LISTED]),
    ]
    if len(agents) > MAX_LISTED:
        lines.append(f"… and {len(agents) - MAX_LISTED} more")
    return "\n".join(lines)


def _line(agent: Agent[Any]) -> str:
    about = agent.description or agent.title or agent.handoff_description or ""
    described = plain_line(about, _DESCRIPTION_CHARS)
    return f"- @{agent.name}: {described}" if described else f"- @{agent.name}"
