"""A team whose agents hand over as a test says, step by step."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Iterable
from typing import Any, Final

from ekiden import Agent, Rollback, Team, ToolContext, function_tool, handoff
from ekiden.core.conversation.model import ModelRequest
from ekiden.handoff import compose, keep_last
from ekiden.testing import ScriptedModel
from ekiden.testing.scripted import StepLike

_PATIENCE_S: Final = 60


class Hold:
    """A step that does not go on until `release`."""

    def __init__(self, step: StepLike) -> None:
        self.step = step
        self._free = threading.Event()

    def release(self) -> None:
        """Go on."""
        self._free.set()

    async def passed(self) -> StepLike:
        """The step, when it may go on."""
        assert await asyncio.to_thread(self._free.wait, _PATIENCE_S)
        return self.step


class Play:
    """What the model of all agents says next; more can be added while it plays."""

    def __init__(self, *steps: StepLike | Hold) -> None:
        self._steps = deque[StepLike | Hold](steps)

    def add(self, *steps: StepLike | Hold) -> None:
        """What comes after what is there."""
        self._steps.extend(steps)

    async def respond(self, request: ModelRequest) -> StepLike | None:
        """The next step."""
        if not self._steps:
            return None
        step = self._steps.popleft()
        return await step.passed() if isinstance(step, Hold) else step


def unbook(rollback: Rollback) -> None:
    """Take a booking back."""


@function_tool
async def book(ctx: ToolContext, seat: int) -> str:
    """Book a seat."""
    await ctx.on_rollback(unbook, key=f"seat-{seat}", arguments={"seat": seat})
    return f"seat {seat} is booked"


def graph_team(play: Play, *, names: Iterable[str] = ()) -> Team:
    """Triage and desk hand to each other; travel may fail; archive sees only what was last said."""
    model = ScriptedModel(respond=play.respond)
    more = [Agent(name, model=model) for name in names]
    travel: Agent[Any] = Agent("travel", model=model, tools=[book])
    archive: Agent[Any] = Agent("archive", model=model)
    desk: Agent[Any] = Agent("desk", model=model)
    triage: Agent[Any] = Agent(
        "triage",
        model=model,
        handoffs=[
            handoff(desk, allow_return="always"),
            handoff(travel, completes="result"),
            handoff(archive, input_filter=compose(keep_last(1))),
            *more,
        ],
    )
    desk.handoffs.append(handoff(triage, allow_return="always"))
    return Team(triage, desk, travel, archive, *more)
