"""The contract of engines: messages in, answers out, and sessions that wait for people."""

from __future__ import annotations

import asyncio
from typing import Any

from ekiden.core.agent import Agent
from ekiden.inbox import Inbox
from ekiden.runtime import CodeContext, Limits, RunConfig
from ekiden.storage.base import SessionFilter
from ekiden.testing.engine_contracts.base import (
    EngineContractBase,
    EngineUnderTest,
    answered,
    asked_person,
    decide,
    done,
    events,
    outcome,
    settled,
    team_of,
    words,
)
from ekiden.testing.scripted import ScriptedModel, call, delay, fail, say
from ekiden.tools import function_tool

_MANY = 24


class AnswerContract(EngineContractBase):
    """One session."""

    async def test_a_message_is_answered(self, engine: EngineUnderTest) -> None:
        with ScriptedModel([say("It is on its way. 📦")]) as model:
            await engine.start(Agent("desk", model=model))
            assert await answered(engine, "包裹在哪里?") == "It is on its way. 📦"
        assert await words(engine) == ["包裹在哪里?", "It is on its way. 📦"]

    async def test_the_next_message_continues_the_conversation(
        self, engine: EngineUnderTest
    ) -> None:
        with ScriptedModel([say("one"), say("two")]) as model:
            await engine.start(Agent("desk", model=model))
            await answered(engine, "first")
            await answered(engine, "second")
        assert await words(engine) == ["first", "one", "second", "two"]
        assert len(model.calls[1].input) == 3

    async def test_a_tool_runs_once_and_the_model_gets_its_result(
        self, engine: EngineUnderTest
    ) -> None:
        ran: list[int] = []

        @function_tool
        async def look(order: int) -> str:
            ran.append(order)
            return "in Kyoto"

        with ScriptedModel([call("look", order=7), say("Kyoto")]) as model:
            await engine.start(Agent("desk", model=model, tools=[look]))
            assert await answered(engine, "where?") == "Kyoto"
        assert ran == [7]
        assert model.calls[1].input[-1]["output"] == "in Kyoto"

    async def test_a_failure_is_stored_and_the_engine_goes_on(
        self, engine: EngineUnderTest
    ) -> None:
        with ScriptedModel([fail(ValueError("no line")), say("better")]) as model:
            await engine.start(Agent("desk", model=model))
            await engine.submit("hello", "s")
            assert await outcome(engine) == "failed"
            [error] = await events(engine, "agent_error")
            assert "no line" in (error.error or "")
            assert await answered(engine, "again") == "better"

    async def test_a_run_ends_at_its_limit(self, engine: EngineUnderTest) -> None:
        @function_tool
        async def look() -> str:
            return "nothing"

        model = ScriptedModel([call("look"), call("look"), call("look")])
        config = RunConfig(limits=Limits(turns=2))
        await engine.start(Agent("desk", model=model, tools=[look]), config=config)
        await engine.submit("look for ever", "s")
        assert await outcome(engine) == "out_of_budget"
        assert len(model.calls) == 2

    async def test_messages_to_one_session_are_answered_one_after_the_other(
        self, engine: EngineUnderTest
    ) -> None:
        gate = asyncio.Event()
        with ScriptedModel([delay(gate, "one"), say("two")]) as model:
            await engine.start(Agent("desk", model=model))
            await engine.submit("first", "s")
            await model.until_called(1)
            second = asyncio.create_task(engine.submit("second", "s"))
            await asyncio.sleep(0)
            assert len(model.calls) == 1
            gate.set()
            await second
            await model.until_called(2)
            await settled(engine)
        assert await words(engine) == ["first", "one", "second", "two"]


class ConcurrencyContract(EngineContractBase):
    """Many sessions at a time."""

    async def test_each_of_many_sessions_is_run_by_one_and_answered_once(
        self, engine: EngineUnderTest
    ) -> None:
        ran: list[str] = []
        at_work: set[str] = set()

        async def code(ctx: CodeContext[Any]) -> str:
            assert ctx.session_id not in at_work
            at_work.add(ctx.session_id)
            ran.append(ctx.session_id)
            await asyncio.sleep(0)
            at_work.discard(ctx.session_id)
            return ctx.text.upper()

        await engine.start(team_of(desk=code))
        names = [f"s{number}" for number in range(_MANY)]
        await asyncio.gather(*(engine.submit(f"message {name}", name) for name in names))
        for name in names:
            assert await outcome(engine, name) == "done"
            assert await words(engine, name) == [f"message {name}", f"MESSAGE {name.upper()}"]
        assert sorted(ran) == sorted(names)
        page = await engine.store.list(SessionFilter(outcome="done"), limit=2 * _MANY)
        assert len(page.sessions) == _MANY

    async def test_a_session_that_hangs_holds_up_no_other(self, engine: EngineUnderTest) -> None:
        gate = asyncio.Event()

        async def code(ctx: CodeContext[Any]) -> str:
            if ctx.session_id == "slow":
                await gate.wait()
            return "done"

        await engine.start(team_of(desk=code))
        await engine.submit("go", "slow")
        assert await answered(engine, "go", "quick") == "done"
        gate.set()
        assert await outcome(engine, "slow") == "done"


class _Till:
    """An agent with one tool that needs approval, and the payments."""

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
