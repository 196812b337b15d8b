"""A team: agents found by name."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any

from ekiden.core.agent import Agent, not_an_edge
from ekiden.core.checks.fields import checked_arguments
from ekiden.core.errors import UnknownAgent, UserError
from ekiden.core.handoff import Handoff


class Team:
    """The agents that can be reached from some starting ones: through handoffs, as tools, and as
    members of supervisors.

    `entry` gets new conversations: the first of `agents` by default::

        team = Team(triage, name="desk")
        await Runner.run(team, "Where is my parcel?")
    """

    @checked_arguments
    def __init__(self, *agents: Agent[Any], entry: str | None = None, name: str = "team") -> None:
        if not agents:
            raise UserError("a team needs at least one agent")
        self.name = name
        self._agents = {agent.name: agent for agent in reachable(agents)}
        self.entry = self[entry] if entry is not None else agents[0]
        self.router = next((agent for agent in self if agent.router is not None), None)
        """The member that routes, if there is one."""

    def __getitem__(self, name: str) -> Agent[Any]:
        try:
            return self._agents[name]
        except KeyError:
            raise UnknownAgent(name, known=self._agents) from None

    def __contains__(self, name: object) -> bool:
        return name in self._agents

    def __iter__(self) -> Iterator[Agent[Any]]:
        return iter(self._agents.values())

    def __len__(self) -> int:
        return len(self._agents)


def reachable(agents: Iterable[Agent[Any]]) -> Iterator[Agent[Any]]:
    """The agents and all their handoff targets, agent tools and task members, each once.

    Two agents of one name, and objects that are not agents, are a `UserError`.
    """
    found: dict[str, Agent[Any]] = {}
    todo = deque(agents)
    while todo:
        agent = todo.popleft()
        if not isinstance(agent, Agent):
            raise UserError(
                f"a team is made of Agent objects, not of {agent!r:.80} ({type(agent).__name__})"
            )
        known = found.get(agent.name)
        if known is agent:
            continue
        if known is not None:
            raise UserError(
                f"two different agents of the team are called {agent.name!r}: use one and the same "
                "Agent object in every `handoffs`, or give one of them another name, "
                "as in agent.clone(name=…)"
            )
        found[agent.name] = agent
        yield agent
        for edge in agent.handoffs:
            if isinstance(edge, Agent):
                todo.append(edge)
            elif not isinstance(edge, Handoff):
                raise UserError(not_an_edge(agent.name, edge))
            elif edge.agent is not None:
                todo.append(edge.agent)
        todo.extend(tool.agent for tool in agent.tools if tool.agent is not None)
        if agent.plan is not None:
            todo.extend(agent.plan.members)
