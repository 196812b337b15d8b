"""A handoff that is interrupted after its approval continues with that approval."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import suppress
from typing import Any

from ekiden.core.agent import Agent, Team
from ekiden.core.conversation.model import ModelRequest
from ekiden.handoff import handoff
from ekiden.handoff.records import records_of
from ekiden.runtime import HandoffController, RunConfig, Runner
from ekiden.sessions import Session
from ekiden.storage.memory import MemoryStore
from ekiden.testing import call, say, transfer
from ekiden.testing.steps import StepLike
from tests.faults.handoff_teams import Yes
from tests.faults.ledger import Ledger
from tests.faults.world import World, told


class Hesitant:
    """For `Agent.accepts`: accepts, but for the first offer, on which it never decides."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()

    async def __call__(self, context: Any, request: Any) -> bool:
        if not self.asked.is_set():
            self.asked.set()
            await asyncio.Event().wait()
        return True


def team_of(world: World, accepts: Hesitant) -> Team:
    """desk, which books paper and hands to orders in one turn, if a person agrees; and billing."""

    def script(request: ModelRequest) -> StepLike:
        if request.agent == "desk" and not told(request, "paper") and len(request.input) == 1:
            return [call("book", what="paper"), transfer("orders", reason="to be booked")]
        return say(f"{request.agent} here")

    model = world.model(script)
    orders = Agent("orders", model=model, accepts=accepts)
    billing = Agent("billing", model=model)
    to_orders = handoff(orders, confirm=True)
    return Team(Agent("desk", model=model, tools=[world.book()], handoffs=[to_orders, billing]))


async def interrupted(work: Any, accepts: Hesitant) -> None:
    """Begin `work` and break it off while orders looks at the offer."""
    task = asyncio.ensure_future(work)
    await asyncio.wait_for(accepts.asked.wait(), 60)
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


async def answers_of(session: Session) -> Counter[str]:
    """How often each call was answered."""
    items = await session.get_items()
    return Counter(item["call_id"] for item in items if item.get("type") == "function_call_output")


async def test_resuming_repeats_no_approval_and_no_call_output(ledger: Ledger) -> None:
    world, accepts = World(ledger.folder), Hesitant()
    config, session = RunConfig(approver=Yes(ledger)), Session("s", store=MemoryStore())
    team = team_of(world, accepts)
    await interrupted(Runner.run(team, "hi", session=session, run_config=config), accepts)
    assert len(ledger.lines("asked")) == 1
    result = await Runner.resume(team, session, run_config=config)
    assert result.last_agent.name == "orders"
    assert len(ledger.lines("asked")) == 1
    assert set((await answers_of(session)).values()) == {1}
    assert ledger.effects() == ["paper"]
    [made] = records_of(await session.events())
    assert (made.id, made.status) == ("s.h1", "completed")


async def test_an_interrupting_handoff_leaves_one_output_per_call(
    ledger: Ledger,
) -> None:
    world, accepts, store = World(ledger.folder), Hesitant(), MemoryStore()
    config, session = RunConfig(approver=Yes(ledger)), Session("s", store=store)
    team = team_of(world, accepts)
    run = asyncio.create_task(Runner.run(team, "hi", session=session, run_config=config))
    await asyncio.wait_for(accepts.asked.wait(), 60)
    made = await HandoffController(team, store, run_config=config).start(
        "s", to="billing", policy="immediate"
    )
    assert made.status == "completed"
    assert (await run).last_agent.name == "billing"
    answers = await answers_of(session)
    assert len(answers) == 2
    assert set(answers.values()) == {1}


async def test_an_approval_of_one_handoff_does_not_cover_another(ledger: Ledger) -> None:
    world, accepts, store = World(ledger.folder), Hesitant(), MemoryStore()
    config = RunConfig(approver=Yes(ledger))
    team = team_of(world, accepts)
    session = Session("s", store=store)
    await Runner.run(team, "hi", session=session, run_config=RunConfig())
    controller = HandoffController(team, store, run_config=config)
    await interrupted(controller.start("s", to="orders", reason="one"), accepts)
    assert len(ledger.lines("asked")) == 1
    made = await controller.start("s", to="orders", reason="another")
    assert made.status == "completed"
    assert len(ledger.lines("asked")) == 2


async def test_the_same_handoff_requested_again_needs_no_second_approval(ledger: Ledger) -> None:
    world, accepts, store = World(ledger.folder), Hesitant(), MemoryStore()
    config = RunConfig(approver=Yes(ledger))
    team = team_of(world, accepts)
    session = Session("s", store=store)
    await Runner.run(team, "hi", session=session, run_config=RunConfig())
    controller = HandoffController(team, store, run_config=config)
    await interrupted(controller.start("s", to="orders", reason="one"), accepts)
    assert (await controller.start("s", to="orders", reason="one")).status == "completed"
    assert len(ledger.lines("asked")) == 1
