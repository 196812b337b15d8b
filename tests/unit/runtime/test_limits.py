"""Where a run stops, and that its work is kept."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ekiden.core.agent import Agent
from ekiden.core.conversation.model import Usage
from ekiden.core.errors import MaxTurnsExceeded, OutOfBudgetError, StoreUnavailable, UserError
from ekiden.core.runs import OutOfBudget
from ekiden.engine import Worker, submit
from ekiden.runtime import CodeContext, Limits, RunConfig, Runner
from ekiden.sessions import Session
from ekiden.storage.base import Claim, Commit
from ekiden.storage.memory import MemoryStore
from ekiden.testing import ManualClock, ScriptedModel, call, hang, say, transfer
from ekiden.tools import function_tool


@function_tool
def shout(text: str) -> str:
    """Say it louder."""
    return text.upper()


async def test_the_limit_of_turns_keeps_the_work_and_can_be_raised() -> None:
    session = Session(store=MemoryStore())
    model = ScriptedModel([call("shout", text="a"), call("shout", text="b"), say("done")])
    agent = Agent("desk", model=model, tools=[shout])
    result = await Runner.run(agent, "hi", session=session, max_turns=2)
    assert result.outcome == OutOfBudget("turns", 2, 2)
    assert (await session.row()).outcome == "out_of_budget"
    with pytest.raises(MaxTurnsExceeded, match="resume it with a higher limit"):
        result.raise_for_outcome()
    again = await Runner.resume(agent, session, max_turns=3)
    assert again.final_output == "done"
    assert again.raise_for_outcome() is again
    assert len(model.calls) == 3


async def test_the_limit_of_tokens_ends_the_run() -> None:
    used = Usage(requests=1, input_tokens=60, output_tokens=40, total_tokens=100)
    model = ScriptedModel([call("shout", text="a")], usage=used)
    agent = Agent("desk", model=model, tools=[shout])
    config = RunConfig(limits=Limits(tokens=100))
    result = await Runner.run(agent, "hi", run_config=config)
    assert result.outcome == OutOfBudget("tokens", 100, 100)
    assert result.usage.total_tokens == 100
    with pytest.raises(OutOfBudgetError, match="100 tokens"):
        result.raise_for_outcome()


async def test_the_limit_of_seconds_counts_time_worked() -> None:
    clock = ManualClock()

    @function_tool
    async def long() -> str:
        clock.advance(61)
        return "phew"

    agent = Agent("desk", model=ScriptedModel([call("long")]), tools=[long])
    config = RunConfig(limits=Limits(seconds=60), clock=clock)
    result = await Runner.run(agent, "hi", run_config=config)
    assert isinstance(result.outcome, OutOfBudget)
    assert result.outcome.limit == "seconds"
    assert result.outcome.used == pytest.approx(61)


async def test_the_limit_of_seconds_interrupts_a_model_call() -> None:
    agent = Agent("desk", model=ScriptedModel([hang()]))
    config = RunConfig(limits=Limits(seconds=0.01))
    result = await Runner.run(agent, "hi", run_config=config)
    assert isinstance(result.outcome, OutOfBudget)
    assert result.outcome.limit == "seconds"


async def test_a_handoff_at_the_depth_limit_is_reported_and_the_source_continues() -> None:
    model = ScriptedModel([transfer("b"), say("I do it myself")])
    b = Agent("b", model=model)
    a = Agent("a", model=model, handoffs=[b])
    session = Session(store=MemoryStore())
    config = RunConfig(limits=Limits(depth=0))
    result = await Runner.run(a, "hi", session=session, run_config=config)
    assert result.final_output == "I do it myself"
    assert "Limits.depth=0" in model.calls[1].input[-1]["output"]
    assert (await session.row()).agent == "a"
    [refused] = [event for event in result.events if event.type == "handoff"]
    assert refused.details is not None
    assert refused.details["code"] == "MAX_DEPTH_EXCEEDED"


async def test_the_limit_of_seconds_interrupts_a_tool_and_the_run_can_be_resumed() -> None:
    slow = True

    @function_tool
    async def dig() -> str:
        if slow:
            await asyncio.get_running_loop().create_future()
        return "gold"

    session = Session(store=MemoryStore())
    agent = Agent("desk", model=ScriptedModel([call("dig"), say("ok")]), tools=[dig])
    config = RunConfig(limits=Limits(seconds=0.02))
    result = await Runner.run(agent, "hi", session=session, run_config=config)
    assert isinstance(result.outcome, OutOfBudget)
    assert result.outcome.limit == "seconds"
    slow = False
    assert (await Runner.resume(agent, session)).final_output == "ok"


class SlowToSay(MemoryStore):
    """Stores a step, and its time is over before it says so; or that it cannot be reached."""

    shared = True
    slow = False

    def __init__(self, failure: Exception | None = None) -> None:
        super().__init__()
        self._failure = failure

    async def commit(self, claim: Claim, commit: Commit) -> None:
        await super().commit(claim, commit)
        if self.slow:
            self.slow = False
            await asyncio.sleep(0.5)
            if self._failure is not None:
                raise self._failure


HALF = RunConfig(limits=Limits(seconds=0.3))


async def test_a_limit_of_seconds_hides_no_commit_that_failed() -> None:
    store = SlowToSay(StoreUnavailable("the connection broke"))

    @function_tool
    def dig() -> str:
        store.slow = True
        return "gold"

    session = Session(store=store)
    agent = Agent("desk", model=ScriptedModel([call("dig"), say("ok")]), tools=[dig])
    with pytest.raises(StoreUnavailable, match="broke"):
        await Runner.run(agent, "hi", session=session, run_config=HALF)
    assert (await Runner.resume(agent, session)).final_output == "ok"


async def test_a_run_that_stores_its_end_within_the_limit_is_done() -> None:
    store = SlowToSay()

    async def work(ctx: CodeContext[Any]) -> str:
        store.slow = True
        return "ok"

    session = Session(store=store)
    result = await Runner.run(Agent("desk", run=work), "hi", session=session, run_config=HALF)
    assert result.final_output == "ok"
    assert (await session.row()).outcome == "done"


async def test_time_worked_is_stored_with_every_step() -> None:
    clock = ManualClock()
    session = Session(store=MemoryStore())

    async def code(ctx: CodeContext[Any]) -> str:
        clock.advance(5)
        await ctx.call("shout", text="a")
        assert (await session.row()).cursor["sp"] == 5
        return "ok"

    agent = Agent("code", run=code, tools=[shout])
    await Runner.run(agent, "hi", session=session, run_config=RunConfig(clock=clock))


async def test_tokens_count_when_the_provider_reports_no_total() -> None:
    used = Usage(input_tokens=50, output_tokens=40)
    model = ScriptedModel([call("shout", text="a")] * 3, usage=used)
    session = Session(store=MemoryStore())
    agent = Agent("desk", model=model, tools=[shout])
    config = RunConfig(limits=Limits(tokens=100))
    result = await Runner.run(agent, "hi", session=session, run_config=config)
    assert result.outcome == OutOfBudget("tokens", 100, 180)
    again = await Runner.resume(agent, session, run_config=config)
    assert again.outcome == OutOfBudget("tokens", 100, 180)


@pytest.mark.parametrize(
    "wrong",
    [{"lease_s": 0}, {"model_timeout_s": -1}, {"busy_timeout_s": -1}, {"parallel_tools": 0}],
)
def test_settings_that_make_no_sense_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(UserError, match=next(iter(wrong))):
        RunConfig(**wrong)


async def test_arguments_of_the_wrong_type_are_refused_with_their_name() -> None:
    agent = Agent("desk", model=ScriptedModel())
    anything: Any = {}
    with pytest.raises(UserError, match="run_config must be a RunConfig, not dict"):
        await Runner.run(agent, "hi", run_config=anything or {"a": 1})
    with pytest.raises(UserError, match="session must be a Session"):
        await Runner.run(agent, "hi", session=anything or "id")


async def test_limits_given_at_submission_apply_in_the_worker() -> None:
    store = MemoryStore()
    model = ScriptedModel([call("shout", text="a"), say("2")])
    agent = Agent("a", model=model, tools=[shout])
    session = Session("s", store=store)
    await submit(agent, "hi", session=session, run_config=RunConfig().with_limits({"turns": 1}))
    await Worker(store, agent).run(until_idle=True)
    assert (await session.row()).outcome == "out_of_budget"
    assert (await Runner.resume(agent, session)).final_output == "2"
