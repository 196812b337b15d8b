"""A supervisor with a plan of ten tasks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ekiden.core.agent import Agent, Team
from ekiden.core.plan import AgentTask, AskModel, Member, TaskDecomposition
from ekiden.runtime import CodeContext
from ekiden.runtime.supervisor import Supervisor
from tests.faults.ledger import digest_of
from tests.faults.world import World

NAMES = tuple(f"part{number}" for number in range(10))


class Ten:
    """Ten tasks; each third one needs the one before it."""

    async def decompose(
        self, text: str, *, members: Sequence[Member], fallback: str | None, ask: AskModel | None
    ) -> TaskDecomposition:
        return TaskDecomposition(
            tasks=tuple(
                AgentTask(
                    agent=name,
                    description=f"{text}: {name}",
                    task_id=name,
                    depends_on=(NAMES[place - 1],) if place % 3 == 2 else (),
                    created_at=0.0,
                )
                for place, name in enumerate(NAMES)
            )
        )


def planned(world: World) -> Team:
    """boss gives ten agents a task each, one after the other; each books something."""
    book = world.book()
    workers = [Agent(name, run=_worker(name), tools=[book]) for name in NAMES]
    return Team(Supervisor("boss", agents=workers, decomposer=Ten(), concurrency=1, retries=0))


def _worker(name: str) -> Any:
    async def run(ctx: CodeContext[Any]) -> str:
        booked = await ctx.call("book", what=name)
        return f"{booked}, having read {digest_of({'text': ctx.text})}"

    return run
