"""The realtime agents of a team, found by name."""

from __future__ import annotations

from collections import deque
from typing import Any

from ekiden.core.errors import UnknownAgent, UserError
from ekiden.realtime.agent import RealtimeAgent
from ekiden.realtime.handoffs import edges_of


def find_agent(start: RealtimeAgent[Any], name: str) -> RealtimeAgent[Any]:
    """The agent called `name` among those that can be reached from `start`; `UnknownAgent`.

    `UserError` if two different ones have that name.
    """
    found: dict[str, RealtimeAgent[Any]] = {}
    todo = deque([start])
    while todo:
        agent = todo.popleft()
        known = found.setdefault(agent.name, agent)
        if known is not agent:
            if agent.name == name:
                raise UserError(
                    f"two different agents of the team are called {name!r}: give one of them "
                    "another name"
                )
            continue
        for edge in edges_of(agent):
            target = edge.agent
            if target is not None and found.get(target.name) is not target:
                todo.append(target)
    if name not in found:
        raise UnknownAgent(name, known=found)
    return found[name]
