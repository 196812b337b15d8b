"""Agents of files that work elsewhere."""

from __future__ import annotations

from typing import Any

from ekiden.a2a import RemoteA2A, a2a_agent
from ekiden.agents.definition import AgentDefinition, RemoteDefinition
from ekiden.core.agent import Agent


def remote_agent(definition: AgentDefinition, remote: RemoteDefinition) -> Agent[Any]:
    """The agent that calls the one elsewhere; nothing is sent before it gets something to do."""
    in_header = remote.header is not None and remote.token_env is not None
    settings = RemoteA2A(
        card=remote.card,
        token_env=None if in_header else remote.token_env,
        headers_env={str(remote.header): str(remote.token_env)} if in_header else {},
        timeout_s=remote.timeout_s,
    )
    return a2a_agent(
        settings,
        name=definition.name,
        handoff_description=definition.handoff_description,
        title=definition.title,
        description=definition.description,
        scope=definition.scope,
        triggers=definition.triggers,
        capabilities=definition.capabilities,
        available=definition.available,
        max_sessions=definition.max_sessions,
        budget=definition.budget,
        runs_on=definition.runs_on,
    )
