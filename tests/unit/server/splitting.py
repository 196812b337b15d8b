"""A team with supervisors: ``tests.unit.server.splitting:team``."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from ekiden.core.agent import Agent, Team
from ekiden.core.plan import AgentTask, AskModel, Member, MultiAgentState, TaskDecomposition
from ekiden.runtime.supervisor import Supervisor


async def _sun(context: Any) -> str:
    return "晴 ☀"


async def _full(context: Any) -> str:
    raise ValueError("no room")


async def _never(context: Any) -> str:
    await asyncio.Event().wait()
    return ""


class Each:
    """One task for each member."""

    async def decompose(
        self, text: str, *, members: Sequence[Member], fallback: str | None, ask: AskModel | None
    ) -> TaskDecomposition:
        """Named like the members."""
        tasks = [
            AgentTask(agent=each.name, description=f"{text}: {each.name}", task_id=each.name)
            for each in members
        ]
        return TaskDecomposition(tasks=tuple(tasks))


class Side:
    """Puts results side by side."""

    async def aggregate(self, state: MultiAgentState, *, ask: AskModel | None) -> str:
        """With slashes between."""
        return " / ".join(str(each.data) for each in state.results if each.success)


weather: Agent[Any] = Agent("天气", run=_sun)
hotels: Agent[Any] = Agent("hotels", run=_full)
slow: Agent[Any] = Agent("slow", run=_never)
boss = Supervisor(
    "boss", agents=[weather, hotels], decomposer=Each(), aggregator=Side(), retries=0, backoff_s=0.0
)
patient = Supervisor("patient", agents=[slow], decomposer=Each(), aggregator=Side(), retries=0)
team = Team(boss, patient)
