"""What all runs of a store may use together in a day."""

from __future__ import annotations

import asyncio
from typing import Any

from ekiden import Agent, Budget, Price, RunConfig, Runner, Session, Usage
from ekiden.core.errors import OutOfBudgetError
from ekiden.core.runs import Done, OutOfBudget
from ekiden.runtime import CodeContext
from ekiden.storage.memory import MemoryStore
from ekiden.testing import ManualClock, ScriptedModel, call, say

_DAY_S = 24 * 3600
USED = Usage(requests=1, input_tokens=60, total_tokens=60)


def clerk(count: int, **options: Any) -> Agent[Any]:

    return Agent("clerk", model=ScriptedModel([say("yes")] * count, usage=USED), **options)


async def test_all_sessions_share_the_daily_budget() -> None:
    store, clock, agent = MemoryStore(), ManualClock(), clerk(3)
    config = RunConfig(daily=Budget(tokens=100), clock=clock)
    for number in (1, 2):
        session = Session(f"s{number}", store=store)
        assert (await Runner.run(agent, "hi", session=session, run_config=config)).outcome.kind
    late = Session("s3", store=store)
    result = await Runner.run(agent, "hi", session=late, run_config=config)
    assert result.outcome == OutOfBudget("tokens", 100, 120)
    assert result.outcome.scope == "tenant"
    assert "a day (used 120)" in str(_problem(result))
    clock.advance(_DAY_S)
    assert (await Runner.resume(agent, late, run_config=config)).final_output == "yes"


async def test_runs_at_the_same_time_do_not_pass_the_limit_together() -> None:
    store, agent = MemoryStore(), clerk(9)
    config = RunConfig(daily=Budget(tokens=100))
    results = await asyncio.gather(
        *(
            Runner.run(agent, "hi", session=Session(f"s{n}", store=store), run_config=config)
            for n in range(9)
        )
    )
    assert sum(isinstance(each.outcome, Done) for each in results) == 2
    assert agent.model.calls[0].settings.max_tokens is None  # type: ignore[union-attr]


async def test_an_agent_tool_spends_from_the_same_daily_budget() -> None:
    store, helper = MemoryStore(), clerk(9)
    model = ScriptedModel([call("clerk", input="x"), say("done")], usage=USED)
    desk = Agent("desk", model=model, tools=[helper.as_tool()])
    config = RunConfig(daily=Budget(tokens=100))
    session = Session("s", store=store)
    result = await Runner.run(desk, "go", session=session, run_config=config)
    assert result.outcome == OutOfBudget("tokens", 100, 120)
    again = RunConfig(daily=Budget(tokens=1000))
    assert (await Runner.resume(desk, session, run_config=again)).final_output == "done"
    after = RunConfig(daily=Budget(tokens=180))
    stopped = await Runner.run(helper, "hi", session=Session("t", store=store), run_config=after)
    assert stopped.outcome == OutOfBudget("tokens", 180, 180)


async def test_money_and_seconds_of_a_day_are_limited() -> None:
    store, clock, agent = MemoryStore(), ManualClock(), clerk(2)
    agent.model.name = "house"  # type: ignore[union-attr]
    config = RunConfig(
        prices={"house": Price(input=1e6, output=0)}, daily=Budget(money=50), clock=clock
    )
    assert (
        await Runner.run(agent, "a", session=Session("a", store=store), run_config=config)
    ).outcome.kind == "done"
    result = await Runner.run(agent, "b", session=Session("b", store=store), run_config=config)
    assert result.outcome == OutOfBudget("money", 50, 60)

    async def works(ctx: CodeContext) -> str:
        clock.advance(40)
        return "worked"

    worker = Agent("worker", run=works)
    config = RunConfig(daily=Budget(seconds=60), clock=clock)
    ends = [
        (
            await Runner.run(worker, "go", session=Session(f"w{n}", store=store), run_config=config)
        ).outcome
        for n in range(3)
    ]
    assert ends == [Done("worked"), Done("worked"), OutOfBudget("seconds", 60, 80)]


async def test_the_usage_of_many_steps_is_summed_and_old_days_are_removed() -> None:
    store, clock, agent = MemoryStore(), ManualClock(), clerk(200)
    config = RunConfig(daily=Budget(tokens=100 * 60), clock=clock)
    for number in range(100):
        session = Session(f"s{number}", store=store)
        await Runner.run(agent, "hi", session=session, run_config=config)
    result = await Runner.run(agent, "hi", session=Session("x", store=store), run_config=config)
    assert result.outcome == OutOfBudget("tokens", 6000, 6000)
    assert len(await store.list_documents("purse.day", limit=1000)) <= 51
    clock.advance(2 * _DAY_S)
    await Runner.run(agent, "hi", session=Session("y", store=store), run_config=config)
    assert len(await store.list_documents("purse.day", limit=1000)) == 2


def _problem(result: Any) -> OutOfBudgetError | None:
    try:
        result.raise_for_outcome()
    except OutOfBudgetError as exc:
        return exc
    return None
