"""What agents agree on is executed as a handoff, once."""

from __future__ import annotations

import re
from typing import Any

import pytest

from ekiden.bus import Bus
from ekiden.collaboration import Collaboration, Collaborations, negotiation_tools
from ekiden.core.agent import Agent, Team
from ekiden.core.conversation.model import ModelRequest, text_of
from ekiden.engine import BusServer, Worker
from ekiden.handoff.records import read_handoffs
from ekiden.inbox import Inbox
from ekiden.runtime import CodeContext, HandoffExecutor, Runner
from ekiden.sessions import Session
from ekiden.storage.memory import MemoryStore
from ekiden.testing import ScriptedModel, call, say
from ekiden.testing.steps import StepLike


class Desk:
    """Sales, which may hand to billing and not to legal."""

    def __init__(self) -> None:
        self.done: list[dict[str, Any]] = []

        async def bill(ctx: CodeContext[Any]) -> str:
            self.done.append(ctx.received)
            return f"billed: {ctx.text}"

        async def sell(ctx: CodeContext[Any]) -> str:
            return "sold"

        billing = Agent("billing", run=bill)
        self.team = Team(Agent("sales", run=sell, handoffs=[billing]), Agent("legal", run=bill))
        self.store = MemoryStore()
        self.executor = HandoffExecutor(self.team, self.store)


async def agreed(desk: Desk, bus: Bus, partner: str = "billing", **context: Any) -> Any:
    together = Collaborations(bus, executor=desk.executor)
    asked = await together.as_agent("sales").request_handoff(
        partner, "Refund order 7.", context=context or None
    )
    await together.as_agent(partner).acknowledge(asked.id)
    [done] = await together.resume()
    return done


async def test_an_agreement_is_a_handoff_of_a_new_task() -> None:
    desk = Desk()
    async with Bus(desk.store) as bus:
        done = await agreed(desk, bus)
    assert (done.phase, done.outcome.status) == ("completion", "completed")
    assert [each["from"] for each in desk.done] == ["sales"]
    [record] = await read_handoffs(desk.store, done.id)
    assert (record.source, record.target, record.status) == ("sales", "billing", "completed")
    assert record.by.name == done.id
    again = await desk.executor.execute(done)
    assert again.status == "completed"
    assert len(desk.done) == 1, "one agreement is one handoff"


async def test_an_agreement_about_a_session_hands_that_session_over() -> None:
    desk = Desk()
    session = Session("customer", store=desk.store)
    await Runner.run(desk.team, "order 7, please", session=session)
    async with Bus(desk.store) as bus:
        done = await agreed(desk, bus, session_id="customer")
    assert done.outcome.ok
    assert (await session.row()).agent == "billing"


async def test_an_agreement_without_a_handoff_edge_to_the_partner_fails() -> None:
    desk = Desk()
    async with Bus(desk.store) as bus:
        done = await agreed(desk, bus, partner="legal")
    assert done.outcome.status == "failed"
    assert desk.done == []


async def test_executing_a_collaboration_without_an_agreement_is_refused() -> None:
    desk = Desk()
    async with Bus(desk.store) as bus:
        together = Collaborations(bus)
        asked = await together.as_agent("sales").request_handoff("billing", "Refund order 7.")
        with pytest.raises(Exception, match="has not agreed on anything"):
            await desk.executor.execute(asked)


async def test_a_model_negotiates_with_tools_in_a_session_that_the_bus_opened() -> None:
    store = MemoryStore()
    async with Bus(store) as bus:
        together = Collaborations(bus)
        tools = negotiation_tools(together, with_agents=["sales"])
        met: list[str] = []

        def script(request: ModelRequest) -> StepLike:
            if "output" in request.input[-1]:
                return say("it is done")
            met.append(text_of(request.input[-1]))
            found = re.search(r'"collaboration":"([^"]+)"', met[-1])
            assert found is not None
            return call("counter", collaboration=found[1], terms='{"days": 5}')

        billing = Agent("billing", model=ScriptedModel(respond=script), tools=tools)
        team = Team(billing)
        async with BusServer(bus, store, team, collaborations=together):
            sales = together.as_agent("sales")
            proposed = await sales.propose("billing", {"days": 2})
            while not (await store.list()).sessions:
                await store.wait_for_change(1)
            await Worker(store, team).run(until_idle=True)
        countered = await together.get(proposed.id)
    assert countered.terms is not None
    assert (countered.terms.by, countered.terms.body) == ("billing", {"days": 5})
    assert "'sales' has a message for you" in met[0]


class Counter:
    """Sales hands to billing, which asks a person first."""

    def __init__(self) -> None:
        async def bill(ctx: CodeContext[Any]) -> str:
            decision = await ctx.request_approval("refund?")
            if decision.choice == "reject":
                raise RuntimeError("refused")
            return "billed"

        async def sell(ctx: CodeContext[Any]) -> str:
            return "sold"

        billing = Agent("billing", run=bill)
        self.team = Team(Agent("sales", run=sell, handoffs=[billing]))
        self.store = MemoryStore()
        self.executor = HandoffExecutor(self.team, self.store)

    async def asked(self, together: Collaborations) -> Collaboration:
        asked = await together.as_agent("sales").request_handoff("billing", "Refund order 7.")
        await together.as_agent("billing").acknowledge(asked.id)
        assert await together.resume() == [], "its target waits for a person"
        waiting = await together.get(asked.id)
        assert (waiting.phase, waiting.outcome) == ("execution", None)
        return asked

    async def decide(self, choice: str) -> None:
        [item] = (await Inbox(self.store).list()).items
        await Inbox(self.store).answer(item.id, choice=choice, by="ann")


@pytest.mark.parametrize(
    ("choice", "handoff", "status"),
    [("approve", "completed", "completed"), ("reject", "rolled_back", "failed")],
)
async def test_an_agreement_is_settled_when_its_handoff_is(
    choice: str, handoff: str, status: str
) -> None:
    desk = Counter()
    async with Bus(desk.store) as bus:
        together = Collaborations(bus, executor=desk.executor)
        asked = await desk.asked(together)
        assert await together.resume() == []
        await desk.decide(choice)
        [done] = await together.resume()
    [record] = await read_handoffs(desk.store, asked.id)
    assert record.status == handoff
    assert done.outcome is not None
    assert done.outcome.status == status


async def test_an_agreement_on_a_session_that_is_running_is_settled_afterwards() -> None:
    desk = Counter()
    async with Bus(desk.store) as bus:
        together = Collaborations(bus, executor=desk.executor)
        asked = await desk.asked(together)
        await desk.decide("approve")
        claim, _ = await desk.store.claim(asked.id, owner="a worker", lease_s=60)
        assert await together.resume() == []
        await desk.store.release(claim)
        await Worker(desk.store, desk.team).run(until_idle=True)
        [done] = await together.resume()
    assert done.outcome is not None
    assert done.outcome.ok
    assert len(await read_handoffs(desk.store, asked.id)) == 1
