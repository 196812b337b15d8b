"""Budgets of agents, tasks and whole trees of sessions hold, however many work at the same time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from ekiden.core.agent import Agent, Team
from ekiden.core.conversation.model import (
    ModelEvent,
    ModelRequest,
    ModelResponse,
    ModelSettings,
    Usage,
    assistant_message,
)
from ekiden.core.errors import UserError
from ekiden.core.plan import AgentTask, AskModel, Member, TaskDecomposition
from ekiden.core.profile import Budget
from ekiden.core.runs import OutOfBudget
from ekiden.engine import Worker, submit
from ekiden.runtime import Limits, Price, RunConfig, Runner
from ekiden.runtime.supervisor import Supervisor
from ekiden.sessions import Session
from ekiden.storage.base import Store
from ekiden.storage.memory import MemoryStore
from ekiden.storage.records import Claim, Commit
from ekiden.testing import ScriptedModel, call, say, transfer
from ekiden.tools import function_tool


def tokens(count: int) -> Usage:
    return Usage(requests=1, input_tokens=count, total_tokens=count)


class Meter:
    """A model that counts its calls and the most calls made at the same time."""

    name = "meter"

    def __init__(self, cost: int, *, answers: int = 1) -> None:
        self.cost = cost
        self.answers = answers
        self.begun = 0
        self.at_once = 0
        self.most_at_once = 0

    async def respond(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        self.begun += 1
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        for _ in range(20):
            await asyncio.sleep(0)
        self.at_once -= 1
        yield ModelResponse(output=[assistant_message("ok")], usage=tokens(self.cost))


class Split:
    """Decomposes a request into one task for each of the given agents."""

    def __init__(self, agents: Sequence[str]) -> None:
        self.agents = agents

    async def decompose(
        self, text: str, *, members: Sequence[Member], fallback: str | None, ask: AskModel | None
    ) -> TaskDecomposition:
        tasks = [
            AgentTask(agent=each, description="work", task_id=str(number))
            for number, each in enumerate(self.agents)
        ]
        return TaskDecomposition(tasks=tuple(tasks))


def desk(model: Any, count: int, **options: Any) -> Supervisor:
    worker = Agent("worker", model=model, **options.pop("worker", {}))
    return Supervisor(
        "boss",
        agents=[worker],
        decomposer=Split(["worker"] * count),
        concurrency=count,
        max_tasks=count,
        retries=0,
        **options,
    )


def limited(**limits: Any) -> RunConfig:
    return RunConfig(limits=Limits(**limits))


@settings(deadline=None)
@given(count=st.integers(2, 12), cost=st.integers(1, 400), limit=st.integers(1, 3000))
async def test_parallel_tasks_make_as_many_model_calls_as_sequential_tasks(
    count: int, cost: int, limit: int
) -> None:
    model = Meter(cost)

    await desk(model, count).run("x", run_config=limited(tokens=limit))

    assert model.begun == min(count, -(-limit // cost))


async def test_far_from_the_limit_calls_are_made_at_the_same_time() -> None:
    model = Meter(100)
    short = ModelSettings(max_tokens=100)

    await desk(model, 8, worker={"model_settings": short}).run(
        "x", run_config=limited(tokens=1_000_000)
    )

    assert model.begun == 8
    assert model.most_at_once == 8


async def test_reserved_tokens_are_returned_when_a_task_fails() -> None:
    class Broken:
        async def respond(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
            raise RuntimeError("away")
            yield

    state = await desk(Broken(), 5).run("x", run_config=limited(tokens=10))

    assert state.phase == "failed"
    assert state.error is not None
    assert "away" in state.error


async def test_money_is_shared_like_tokens() -> None:
    model = Meter(100)
    price = Price(input=10_000, output=10_000)
    config = RunConfig(limits=Limits(money=3.0), prices={"meter": price})

    await desk(model, 9).run("x", run_config=config)

    assert model.begun == 3


async def test_an_answer_without_a_token_limit_gets_a_share_of_the_budget() -> None:
    model = ScriptedModel([say("x")] * 2, usage=tokens(1))

    await desk(model, 2).run("x", run_config=limited(tokens=80_000))

    assert [each.settings.max_tokens for each in model.calls] == [5_000, 5_000]


async def test_each_task_spends_at_most_its_own_budget() -> None:
    @function_tool
    def again() -> str:
        """Go on."""
        return "go on"

    model = ScriptedModel([call("again")] * 50, usage=tokens(60))
    boss = desk(model, 3, worker={"tools": [again]}, task_budget=Budget(tokens=100))

    state = await boss.run("x")

    assert len(model.calls) == 6
    assert all("100 tokens" in (each.error or "") for each in state.results)


async def test_the_limit_holds_over_plans_within_plans() -> None:
    model = Meter(100)
    worker = Agent("worker", model=model)
    inner = [
        Supervisor(f"inner{number}", agents=[worker], decomposer=Split(["worker"] * 4), retries=0)
        for number in range(3)
    ]
    outer = Supervisor(
        "outer", agents=inner, decomposer=Split([each.name for each in inner]), retries=0
    )

    await outer.run("x", run_config=limited(tokens=700))

    assert model.begun == 7


async def test_the_limit_holds_for_several_workers() -> None:
    model, store = Meter(100), MemoryStore()
    boss = desk(model, 10)
    session = Session("s1", store=store)
    await submit(boss, "x", session=session)
    workers = [Worker(store, Team(boss), run_config=limited(tokens=450)) for _ in range(3)]

    async with asyncio.TaskGroup() as group:
        for each in workers:
            group.create_task(_until_over(each, store))

    assert model.begun == 5


async def _until_over(worker: Worker, store: Store) -> None:
    while not (await store.get("s1")).outcome or (await store.get("s1")).outcome == "waiting":
        await worker.run(until_idle=True)


async def test_no_shared_budget_is_stored_after_the_run() -> None:
    written: set[str] = set()

    class Noting(MemoryStore):
        async def commit(self, claim: Claim, commit: Commit) -> None:
            written.update(each.collection for each in commit.documents)
            await super().commit(claim, commit)

    store = Noting()

    await desk(Meter(10), 3).run(
        "x", session=Session("s1", store=store), run_config=limited(tokens=10_000)
    )

    shared_budgets = [each for each in written if each.startswith("purse.")]
    assert shared_budgets
    for each in shared_budgets:
        assert await store.list_documents(each) == []


async def test_the_usage_of_a_plan_is_that_of_all_its_tasks() -> None:
    result = await Runner.run(desk(Meter(100), 5), "x")

    assert result.usage.tokens == 500
    assert result.usage.requests == 5


async def test_the_time_limit_of_a_run_includes_the_agents_it_asks() -> None:
    async def slow(ctx: Any) -> str:
        await asyncio.Event().wait()
        return "never"

    helper = Agent("helper", run=slow)
    model = ScriptedModel([call("helper", input="x")])
    top = Agent("top", model=model, tools=[helper.as_tool()])

    result = await Runner.run(top, "x", run_config=limited(seconds=0.2))

    assert isinstance(result.outcome, OutOfBudget)
    assert result.outcome.limit == "seconds"


async def test_an_agent_stops_at_its_own_budget() -> None:
    @function_tool
    def again() -> str:
        """Go on."""
        return "go on"

    model = ScriptedModel([call("again")] * 9, usage=tokens(60))
    agent = Agent("a", model=model, tools=[again], budget=Budget(tokens=100))

    result = await Runner.run(agent, "x")

    assert result.outcome == OutOfBudget("tokens", 100, 120)
    assert len(model.calls) == 2


async def test_the_budget_of_one_agent_does_not_limit_the_next() -> None:
    second = Agent("second", model=ScriptedModel([say("done")], usage=tokens(500)))
    first = Agent(
        "first",
        model=ScriptedModel([transfer("second")], usage=tokens(90)),
        handoffs=[second],
        budget=Budget(tokens=100),
    )

    result = await Runner.run(first, "x")

    assert result.final_output == "done"


async def test_an_agent_that_exceeds_its_budget_before_answering_returns_the_work() -> None:
    @function_tool
    def again() -> str:
        """Go on."""
        return "go on"

    second = Agent(
        "second",
        model=ScriptedModel([call("again")] * 9, usage=tokens(60)),
        tools=[again],
        budget=Budget(tokens=50),
    )
    model = ScriptedModel([transfer("second"), say("I do it myself.")])
    from ekiden.handoff import handoff

    first = Agent("first", model=model, handoffs=[handoff(second, completes="result")])

    result = await Runner.run(first, "x")

    assert result.final_output == "I do it myself."
    assert result.last_agent is first


async def test_an_agents_own_time_ends_its_step() -> None:
    async def slow(ctx: Any) -> str:
        await asyncio.Event().wait()
        return "never"

    agent = Agent("a", run=slow, budget=Budget(seconds=0.05))

    result = await Runner.run(agent, "x")

    assert isinstance(result.outcome, OutOfBudget)
    assert (result.outcome.limit, result.outcome.allowed) == ("seconds", 0.05)


async def test_an_agents_own_budget_of_money_needs_a_price() -> None:
    agent = Agent("a", model=ScriptedModel([say("x")]), budget=Budget(money=1.0))

    with pytest.raises(UserError, match="there is no price for"):
        await Runner.run(agent, "x")


async def test_a_budget_survives_a_restart() -> None:
    @function_tool
    def again() -> str:
        """Go on."""
        return "go on"

    store = MemoryStore()
    model = ScriptedModel([call("again")] * 9, usage=tokens(60))
    agent = Agent("a", model=model, tools=[again], budget=Budget(tokens=100))
    session = Session("s1", store=store)
    await Runner.run(agent, "x", session=session)

    again_result = await Runner.resume(agent, session)

    assert isinstance(again_result.outcome, OutOfBudget)
    assert len(model.calls) == 2
