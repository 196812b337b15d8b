"""The contract of engines: agents hand over, ask each other, share plans."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from ekiden.core.agent import Agent, Team
from ekiden.core.errors.messages import QueryTimeout
from ekiden.core.plan import (
    AgentTask,
    AskModel,
    Member,
    MultiAgentState,
    TaskDecomposition,
)
from ekiden.runtime import CodeContext
from ekiden.runtime.supervisor import Supervisor
from ekiden.testing.engine_contracts.base import (
    EngineContractBase,
    EngineUnderTest,
    answered,
    events,
    settled,
    team_of,
    words,
)
from ekiden.testing.scripted import ScriptedModel, fail, say, transfer


class RelayContract(EngineContractBase):
    """Handoffs."""

    async def test_the_target_of_a_handoff_answers_and_sees_the_conversation(
        self, engine: EngineUnderTest
    ) -> None:
        model = ScriptedModel([transfer("b", reason="an invoice"), say("b here"), say("b again")])
        b = Agent("b", model=model)
        with model:
            await engine.start(Agent("a", model=model, handoffs=[b]))
            assert await answered(engine, "my bill") == "b here"
            assert await answered(engine, "and now?") == "b again"
        assert [asked.agent for asked in model.calls] == ["a", "b", "b"]
        assert model.calls[1].input[0]["content"] == "my bill"
        assert (await settled(engine)).agent == "b"
        [made] = [
            event.details["status"]
            for event in await events(engine, "handoff")
            if event.details and event.details["status"] == "completed"
        ]
        assert made == "completed"

    async def test_a_handoff_whose_target_fails_is_undone(self, engine: EngineUnderTest) -> None:
        source = ScriptedModel([transfer("b"), say("I do it myself")])
        b = Agent("b", model=ScriptedModel([fail(ConnectionError("no line"))]))
        with source:
            await engine.start(Agent("a", model=source, handoffs=[b]))
            assert await answered(engine, "hello") == "I do it myself"
        assert "no line" in source.calls[1].input[-1]["output"]
        assert (await settled(engine)).agent == "a"
        statuses = [e.details["status"] for e in await events(engine, "handoff") if e.details]
        assert statuses == ["transferring", "rolled_back"]


class AskingContract(EngineContractBase):
    """Questions between agents."""

    async def test_an_agent_asks_another_and_goes_on_with_its_answer(
        self, engine: EngineUnderTest
    ) -> None:
        async def pm(ctx: CodeContext[Any]) -> str:
            return f"sales say {await ctx.ask('sales', 'how many?')}"

        async def sales(ctx: CodeContext[Any]) -> str:
            return "42"

        await engine.start(team_of(pm=pm, sales=sales))
        assert await answered(engine, "go") == "sales say 42"
        [child] = [row for row in (await engine.store.list()).sessions if row.agent == "sales"]
        assert (child.status, child.outcome) == ("idle", "done")
        [message] = await engine.store.find_messages()
        assert (message.state, message.answer["payload"]) == ("answered", "42")

    async def test_several_are_asked_at_the_same_time(self, engine: EngineUnderTest) -> None:
        both = asyncio.Barrier(2)

        async def pm(ctx: CodeContext[Any]) -> str:
            return ", ".join(await asyncio.gather(ctx.ask("x", "?"), ctx.ask("y", "?")))

        async def asked(ctx: CodeContext[Any]) -> str:
            await both.wait()
            return "yes"

        await engine.start(team_of(pm=pm, x=asked, y=asked))
        assert await answered(engine, "go") == "yes, yes"

    async def test_a_question_that_is_not_answered_in_time_ends(
        self, engine: EngineUnderTest
    ) -> None:
        gate = asyncio.Event()

        async def pm(ctx: CodeContext[Any]) -> str:
            try:
                return str(await ctx.ask("sales", "?", timeout_s=0.05))
            except QueryTimeout:
                return "too late"

        async def sales(ctx: CodeContext[Any]) -> str:
            await gate.wait()
            return "42"

        await engine.start(team_of(pm=pm, sales=sales))
        assert await answered(engine, "go") == "too late"
        gate.set()

    async def test_a_plan_is_worked_off_and_one_answer_made_of_it(
        self, engine: EngineUnderTest
    ) -> None:
        read: dict[str, str] = {}

        def member(name: str) -> Agent[Any]:
            async def code(ctx: CodeContext[Any]) -> str:
                read[name] = ctx.text
                return f"{name} did it"

            return Agent(name, run=code)

        boss = Supervisor(
            "boss",
            agents=[member("a"), member("b")],
            decomposer=_InOrder(),
            aggregator=_SideBySide(),
        )
        await engine.start(Team(boss))
        assert await answered(engine, "both of it") == "a did it | b did it"
        assert "a did it" in read["b"]
        assert (await words(engine))[0] == "both of it"


class _InOrder:
    """A decomposer: first ``a``, then ``b`` with its result."""

    async def decompose(
        self, text: str, *, members: Sequence[Member], fallback: str | None, ask: AskModel | None
    ) -> TaskDecomposition:
        first = AgentTask(agent="a", description="the first half", task_id="a")
        second = AgentTask(agent="b", description="the second half", task_id="b", depends_on=("a",))
        return TaskDecomposition(tasks=(first, second))


class _SideBySide:
    """An aggregator."""

    async def aggregate(self, state: MultiAgentState, *, ask: AskModel | None) -> str:
        return " | ".join(str(each.data) for each in sorted(state.results, key=lambda e: e.agent))
