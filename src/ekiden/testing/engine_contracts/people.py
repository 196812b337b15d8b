"""The contract of engines: sessions that wait for people."""

from __future__ import annotations

from typing import Any

from ekiden.core.agent import Agent
from ekiden.inbox import Inbox
from ekiden.runtime import CodeContext
from ekiden.testing.engine_contracts.base import (
    EngineContractBase,
    EngineUnderTest,
    answered,
    asked_person,
    decide,
    done,
    settled,
    team_of,
)
from ekiden.testing.scripted import ScriptedModel, call, say
from ekiden.tools import function_tool


class _Till:
    """An agent whose one tool needs a yes, and what it paid."""

    def __init__(self, *steps: Any) -> None:
        self.paid: list[int] = []
        self.model = ScriptedModel(steps)

        @function_tool(confirmation=True)
        async def pay(cents: int) -> str:
            self.paid.append(cents)
            return "paid"

        self.agent: Agent[Any] = Agent("till", model=self.model, tools=[pay])


class PeopleContract(EngineContractBase):
    """Approvals and deadlines."""

    async def test_a_tool_waits_for_a_yes_while_nobody_holds_the_session(
        self, engine: EngineUnderTest
    ) -> None:
        till = _Till(call("pay", cents=7), say("Done."))
        await engine.start(till.agent)
        await engine.submit("pay", "s")
        item = await asked_person(engine)
        row = await engine.store.get("s")
        assert (row.status, row.owner, till.paid) == ("waiting", None, [])
        await decide(engine, item, "approve")
        assert await done(engine) == "Done."
        assert till.paid == [7]
        till.model.assert_done()

    async def test_after_a_no_the_tool_is_not_run(self, engine: EngineUnderTest) -> None:
        till = _Till(call("pay", cents=7), say("Then not."))
        await engine.start(till.agent)
        await engine.submit("pay", "s")
        await decide(engine, await asked_person(engine), "reject")
        assert await done(engine) == "Then not."
        assert till.paid == []

    async def test_who_waits_for_a_person_survives_a_restart(self, engine: EngineUnderTest) -> None:
        till = _Till(call("pay", cents=7), say("Done."))
        await engine.start(till.agent)
        await engine.submit("pay", "s")
        item = await asked_person(engine)
        await engine.stop()
        await engine.start(till.agent)
        await decide(engine, item, "approve")
        assert await done(engine) == "Done."
        assert till.paid == [7]

    async def test_a_decision_made_while_the_engine_is_down_counts(
        self, engine: EngineUnderTest
    ) -> None:
        till = _Till(call("pay", cents=7), say("Done."))
        await engine.start(till.agent)
        await engine.submit("pay", "s")
        item = await asked_person(engine)
        await engine.stop()
        await decide(engine, item, "approve")
        assert till.paid == []
        await engine.start(till.agent)
        assert await done(engine) == "Done."
        assert till.paid == [7]

    async def test_what_nobody_decides_in_time_is_decided_by_default(
        self, engine: EngineUnderTest
    ) -> None:
        async def code(ctx: CodeContext[Any]) -> str:
            approval = await ctx.request_approval("may I?", deadline_s=0.05, default="reject")
            return approval.choice

        await engine.start(team_of(desk=code))
        await engine.submit("go", "s")
        assert await done(engine) == "reject"

    async def test_an_agent_that_is_asked_may_ask_a_person(self, engine: EngineUnderTest) -> None:
        async def pm(ctx: CodeContext[Any]) -> str:
            return f"sales say {await ctx.ask('sales', 'a discount?')}"

        async def sales(ctx: CodeContext[Any]) -> str:
            return (await ctx.request_approval("a discount?")).choice

        await engine.start(team_of(pm=pm, sales=sales))
        await engine.submit("go", "s")
        await decide(engine, await asked_person(engine), "approve")
        assert await done(engine) == "sales say approve"

    async def test_a_message_to_a_session_that_waits_breaks_the_waiting_off(
        self, engine: EngineUnderTest
    ) -> None:
        till = _Till(call("pay", cents=7), say("As you like."))
        await engine.start(till.agent)
        await engine.submit("pay", "s")
        await asked_person(engine)
        assert await answered(engine, "forget it") == "As you like."
        assert till.paid == []
        assert not (await Inbox(engine.store).list()).items
        assert (await settled(engine)).status == "idle"
