"""The contract of an engine: tests of the runtime's guarantees, which the test class of an engine
inherits.

    class TestMyEngine(QueueEngineContract):
        @pytest.fixture
        async def engine(self, store):
            engine = MyEngine(store)
            yield engine
            await engine.stop(drain=False)

`EngineUnderTest` is the interface of `MyEngine`. The tests need pytest-asyncio in auto mode. The
tests wait for conditions and do not sleep.
"""

from __future__ import annotations

import asyncio
from typing import Any

from ekiden.core.agent import Agent, Team
from ekiden.runtime import CodeContext
from ekiden.testing.contracts.engine import (
    CONFIG as CONFIG,
    AnswerContract,
    AskingContract,
    ConcurrencyContract,
    EngineContractBase,
    EngineUnderTest as EngineUnderTest,
    PeopleContract,
    RelayContract,
    answered,
    done,
    outcome,
    settled,
    team_of,
    until,
)
from ekiden.testing.scripted import ScriptedModel, call, hang, say, transfer
from ekiden.tools import function_tool

_SEVERAL = 8


class StoppingContract(EngineContractBase):
    """Cancelling, draining, restarting."""

    async def test_a_cancelled_run_stops_and_the_session_takes_the_next_message(
        self, engine: EngineUnderTest
    ) -> None:
        with ScriptedModel([hang(), say("here I am")]) as model:
            await engine.start(Agent("desk", model=model))
            await engine.submit("hello", "s")
            await model.until_called(1)
            await engine.cancel("s")
            row = await until(engine, lambda _, status: status == "stopped")
            assert (row.status, row.outcome) == ("idle", None)
            assert await answered(engine, "still there?") == "here I am"

    async def test_stopping_with_drain_finishes_running_sessions(
        self, engine: EngineUnderTest
    ) -> None:
        gate, begun = asyncio.Event(), asyncio.Event()

        async def code(ctx: CodeContext[Any]) -> str:
            begun.set()
            await gate.wait()
            return "finished"

        await engine.start(team_of(desk=code))
        await engine.submit("go", "s")
        await begun.wait()
        stopping = asyncio.create_task(engine.stop())
        await asyncio.sleep(0)
        gate.set()
        await stopping
        row = await engine.store.get("s")
        assert (row.status, row.outcome, row.owner) == ("idle", "done", None)

    async def test_an_interrupted_session_resumes_after_a_restart_without_repeating_steps(
        self, engine: EngineUnderTest
    ) -> None:
        ran: list[str] = []

        @function_tool
        async def look() -> str:
            ran.append("look")
            return "seen"

        model = ScriptedModel([call("look"), hang(), say("It is here.")])
        team = Agent("desk", model=model, tools=[look])
        await engine.start(team)
        await engine.submit("where?", "s")
        await model.until_called(2)
        await engine.stop(drain=False)
        assert (await engine.store.get("s")).owner is None
        await engine.start(team)
        assert await done(engine) == "It is here."
        assert ran == ["look"]
        model.assert_done()

    async def test_an_unconfirmed_handoff_survives_a_restart(self, engine: EngineUnderTest) -> None:
        source = ScriptedModel([transfer("b", reason="an invoice")])
        target = ScriptedModel([hang(), say("b here")])
        team = Agent("a", model=source, handoffs=[Agent("b", model=target)])
        await engine.start(team)
        await engine.submit("my bill", "s")
        await target.until_called(1)
        await engine.stop(drain=False)
        await engine.start(team)
        assert await done(engine) == "b here"
        assert (await settled(engine)).agent == "b"
        assert len(source.calls) == 1
        target.assert_done()

    async def test_stopping_an_engine_with_many_sessions_loses_none(
        self, engine: EngineUnderTest
    ) -> None:
        begun, all_begun = list[str](), asyncio.Event()
        ended: list[str] = []
        gate = asyncio.Event()

        async def code(ctx: CodeContext[Any]) -> str:
            begun.append(ctx.session_id)
            if len(begun) == _SEVERAL:
                all_begun.set()
            await gate.wait()
            ended.append(ctx.session_id)
            return "done"

        team = team_of(desk=code)
        names = [f"s{number}" for number in range(_SEVERAL)]
        await engine.start(team)
        for name in names:
            await engine.submit("go", name)
        await all_begun.wait()
        await engine.stop(drain=False)
        assert ended == []
        gate.set()
        await engine.start(team)
        for name in names:
            assert await done(engine, name) == "done"
        assert sorted(ended) == names

    async def test_an_asking_and_an_asked_session_both_resume_after_a_restart(
        self, engine: EngineUnderTest
    ) -> None:
        begun, gate = asyncio.Event(), asyncio.Event()

        async def pm(ctx: CodeContext[Any]) -> str:
            return f"sales say {await ctx.ask('sales', '?')}"

        async def sales(ctx: CodeContext[Any]) -> str:
            begun.set()
            await gate.wait()
            return "42"

        team = team_of(pm=pm, sales=sales)
        await engine.start(team)
        await engine.submit("go", "s")
        await begun.wait()
        await engine.stop(drain=False)
        gate.set()
        await engine.start(team)
        assert await done(engine) == "sales say 42"
        assert (await settled(engine)).status == "idle"


class LineContract(EngineContractBase):
    """The order and the limit of concurrent sessions."""

    async def test_sessions_with_a_higher_priority_run_first(self, engine: EngineUnderTest) -> None:
        begun, gate, ran = asyncio.Event(), asyncio.Event(), list[str]()
        await engine.start(_recording_team(ran, begun, gate), concurrency=1)
        await engine.submit("go", "first")
        await begun.wait()
        for name in ("low", "normal", "high", "urgent"):
            await engine.submit("go", name, priority=name)
        gate.set()
        for name in ("low", "normal", "high", "urgent"):
            assert await outcome(engine, name) == "done"
        assert ran == ["first", "urgent", "high", "normal", "low"]

    async def test_an_asked_session_inherits_the_priority(self, engine: EngineUnderTest) -> None:
        async def pm(ctx: CodeContext[Any]) -> str:
            return str(await ctx.ask("sales", "?"))

        async def sales(ctx: CodeContext[Any]) -> str:
            return "42"

        await engine.start(team_of(pm=pm, sales=sales))
        await engine.submit("go", "s", priority="high")
        assert await done(engine) == "42"
        rows = (await engine.store.list()).sessions
        assert [(row.agent, row.priority) for row in rows] == [("sales", 3), ("pm", 3)]

    async def test_the_number_of_running_sessions_is_limited(self, engine: EngineUnderTest) -> None:
        at_work, most = set[str](), list[int]()

        async def code(ctx: CodeContext[Any]) -> str:
            at_work.add(ctx.session_id)
            most.append(len(at_work))
            await asyncio.sleep(0)
            at_work.discard(ctx.session_id)
            return "done"

        await engine.start(team_of(desk=code), concurrency=2)
        names = [f"s{number}" for number in range(6)]
        await asyncio.gather(*(engine.submit("go", name) for name in names))
        for name in names:
            assert await outcome(engine, name) == "done"
        assert max(most) <= 2


def _recording_team(ran: list[str], begun: asyncio.Event, gate: asyncio.Event) -> Team:
    """A team that records its sessions in `ran`; the first session waits for the gate."""

    async def code(ctx: CodeContext[Any]) -> str:
        ran.append(ctx.session_id)
        if ctx.session_id == "first":
            begun.set()
            await gate.wait()
        return "done"

    return team_of(desk=code)


class EngineContract(
    AnswerContract,
    ConcurrencyContract,
    RelayContract,
    AskingContract,
    PeopleContract,
    StoppingContract,
):
    """All rules of an engine. An engine is correct if all tests pass."""


class QueueEngineContract(EngineContract, LineContract):
    """All rules of an engine that limits the number of concurrent sessions."""
