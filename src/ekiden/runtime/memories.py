"""The long-term memory of an agent in a run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ekiden.core.agent import Agent
from ekiden.core.memory_errors import NoMemory
from ekiden.runtime.config import RunConfig
from ekiden.storage.base import Store

if TYPE_CHECKING:
    from ekiden.memory.memory import Memory


def memory_for(
    agent: Agent[Any], *, store: Store, user_id: str | None, config: RunConfig
) -> Memory:
    """What the agent remembers for this user; `NoMemory` if it has no memory."""
    if agent.memory is None:
        raise NoMemory(
            f"agent {agent.name!r} has no memory: give it one, `memory=MemorySettings()`, or "
            "`memory: {enabled: true}` in its file"
        )
    from ekiden.memory import Memory

    return Memory(
        store,
        user=user_id,
        app=config.app,
        settings=agent.memory,
        embedder=config.embedder,
        agent=agent.name,
    )
