"""A flow whose method has an effect, and a process that runs it."""

from __future__ import annotations

import asyncio
import os
from typing import Any

from crewai.flow import Flow, human_feedback, listen, start
from pydantic import BaseModel

from ekiden import (
    Agent,
    RunConfig,
    Runner,
    Session,
    SessionNotFound,
    current_turn,
    foreign_agent,
)
from ekiden.project.stores import open_store
from ekiden.testing import ScriptedModel, say
from tests.frameworks.effects import effect

CONFIG = RunConfig(approver="inbox", lease_s=15.0, on_busy="wait", busy_timeout_s=60.0)


class Trip(BaseModel):
    text: str = ""
    booked: list[str] = []


class TripFlow(Flow[Trip]):
    @start()
    def plan(self) -> str:
        return f"plan for {self.state.text}"

    @listen(plan)
    def book(self, plan: str) -> str:
        self.state.booked.append(effect("flow"))
        return plan

    @listen(book)
    @human_feedback(message="Is the trip right?")
    async def review(self, plan: str) -> str:
        return f"{plan}, {len(self.state.booked)} booked"

    @listen(review)
    def end(self, review: Any) -> str:
        if "desk" in current_turn().handoffs:
            current_turn().hand_to("desk", reason="flow is done")
        return f"{review.output}: {review.feedback}"


async def run(url: str) -> Any:
    desk = Agent("desk", model=ScriptedModel([say("Booked for you.")]))
    member = foreign_agent(TripFlow, "flow", handoffs=[desk])
    async with open_store(url) as store:
        session = Session("s", store=store)
        try:
            await session.row()
        except SessionNotFound:
            return await Runner.run(member, "Rome", session=session, run_config=CONFIG)
        return await Runner.resume(member, session=session, run_config=CONFIG)


def life(url: str) -> None:
    os.environ["KILL"] = "flow:after"
    asyncio.run(run(url))
