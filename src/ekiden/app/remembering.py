"""The memory of agents that come from files."""

from __future__ import annotations

from typing import Any

from ekiden.agents.definition import AgentDefinition, Problem
from ekiden.app.settings.model import MemoryDefaults
from ekiden.core.agent import Agent
from ekiden.core.profile import MemorySettings
from ekiden.core.suggest import suggestion


def let_remember(
    definition: AgentDefinition,
    agent: Agent[Any],
    defaults: MemoryDefaults,
    problems: list[Problem],
) -> None:
    """Give the agent the memory that its file asks for, and take tools of the same names away."""
    said = definition.memory
    if said is None or not said.enabled:
        return
    from ekiden.memory import elsewhere, known_backends
    from ekiden.runtime.tools.memory_tools import memory_tools

    backend = elsewhere(said.backend)
    agent.memory = MemorySettings(
        type=said.type,
        scope=said.scope,
        backend=backend,
        top_k=defaults.top_k if said.top_k is None else said.top_k,
        threshold=defaults.similarity_threshold if said.threshold is None else said.threshold,
    )
    if backend is not None and backend not in known_backends():
        known = known_backends()
        message = (
            f"no memory back end is called {backend[:80]!r}; known: {', '.join(known)}"
            f"{suggestion(backend, known)}"
        )
        problems.append(_problem(definition, "agent.unknown_backend", message))
        agent.memory = None
        return
    remembering = {tool.name for tool in memory_tools(agent)}
    for tool in [each for each in agent.tools if each.name in remembering]:
        message = (
            f"{tool.name!r} is how the agent remembers, as this file says it does; rename the "
            "tool, or leave it out"
        )
        problems.append(_problem(definition, "agent.duplicate_tool", message))
        agent.tools.remove(tool)


def _problem(definition: AgentDefinition, code: str, message: str) -> Problem:
    return Problem(
        path=definition.path,
        line=definition.line,
        column=definition.column,
        code=code,
        message=message,
    )
