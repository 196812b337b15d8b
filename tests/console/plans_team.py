"""A team with a supervisor whose tasks a test holds and lets go."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from typing import Any, Final

from ekiden import Agent, CodeContext, Supervisor, Team
from ekiden.core.plan import AgentTask, AskModel, Member, MultiAgentState, TaskDecomposition

HOSTILE: Final = "<img src=x onerror=\"document.title='run'\">\u202eback"
_PATIENCE_S: Final = 60


class Split:
    """The weather and the money first, then the trip, and a last word about both."""

    def __init__(self, odd: str) -> None:
        self._odd = odd

    async def decompose(
        self, text: str, *, members: Sequence[Member], fallback: str | None, ask: AskModel | None
    ) -> TaskDecomposition:
        """Always the same four."""
        return TaskDecomposition(
            tasks=(
                AgentTask(
                    task_id="sky",
                    agent="weather",
                    description="Is it warm in Kyoto?",
                    parameters={"city": "京都"},
                ),
                AgentTask(
                    task_id="money", agent="finance", description=f"What may it cost? {self._odd}"
                ),
                AgentTask(
                    task_id="trip",
                    agent="travel",
                    description="A hotel that suits the weather",
                    depends_on=("sky",),
                ),
                AgentTask(
                    task_id="card",
                    agent="travel",
                    description="Pay for it",
                    depends_on=("money", "trip"),
                ),
            ),
            reasoning="The hotel depends on the **weather**.",
            notes=("nobody sells umbrellas",),
        )


class Told:
    """All results, one below the other."""

    async def aggregate(self, state: MultiAgentState, *, ask: AskModel | None) -> str:
        """As Markdown."""
        return "\n".join(
            f"- **{each.agent}**: {each.data}" for each in state.results if each.success
        )


class Sky:
    """The agent for the weather: it answers when it may."""

    def __init__(self, odd: str = HOSTILE) -> None:
        self._free = threading.Event()
        self.odd = odd
        """What the texts of the plan hold besides."""

    def release(self) -> None:
        """Answer."""
        self._free.set()

    async def code(self, context: CodeContext[Any]) -> str:
        """One task."""
        assert await asyncio.to_thread(self._free.wait, _PATIENCE_S)
        return f"*Sunny*, 24 °C. {self.odd}"

    async def broken(self, context: CodeContext[Any]) -> str:
        """A task that fails, however often it is tried."""
        raise ConnectionError(f"no line to the exchange {self.odd}")


async def _travel(context: CodeContext[Any]) -> str:
    return "The hotel with a garden."


def plans_team(sky: Sky) -> Team:
    """A fresh one."""
    weather: Agent[Any] = Agent("weather", run=sky.code)
    finance: Agent[Any] = Agent("finance", run=sky.broken)
    travel: Agent[Any] = Agent("travel", run=_travel)
    desk = Supervisor(
        "desk",
        agents=[weather, finance, travel],
        decomposer=Split(sky.odd),
        aggregator=Told(),
        retries=1,
        backoff_s=0.01,
    )
    return Team(desk, weather, finance, travel)
