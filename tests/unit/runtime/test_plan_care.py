"""Plans under odd circumstances: other processes, time-outs, limits, failures that are resumed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from ekiden.core.agent import Agent, Team
from ekiden.core.conversation.model import (
    ModelEvent,
    ModelRequest,
    ModelResponse,
    Usage,
    assistant_message,
)
from ekiden.core.errors import ModelBehaviorError
from ekiden.core.events import Event
from ekiden.core.plan import AgentTask, PlanFailed, PlanSettings
from ekiden.core.profile import Budget
from ekiden.core.runs import Done
from ekiden.core.values import dumps
from ekiden.engine import Worker
from ekiden.handoff import handoff
from ekiden.inbox import Inbox, InboxQuery
from ekiden.runtime import CodeContext, Limits, RunConfig, Runner
from ekiden.runtime.history.deletion import delete_session
from ekiden.runtime.plan_steps import plan_state
from ekiden.sessions import Session
from ekiden.storage.memory import MemoryStore
from ekiden.testing import ScriptedModel, call, say, transfer
from tests.unit.runtime.test_supervisor import Desk, Side, supervisor, task


def tokens(count: int) -> Usage:
    return Usage(requests=1, input_tokens=count, total_tokens=count)


class Meter:
    """A model that says ok and counts."""

    name = "meter"

    def __init__(self, cost: int = 100) -> None:
        self.cost = cost
        self.calls = 0

    async def respond(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        self.calls += 1
        await asyncio.sleep(0)
        yield ModelResponse(output=[assistant_message("ok")], usage=tokens(self.cost))


def hanging() -> Callable[[CodeContext], Any]:
    async def run(ctx: CodeContext) -> str:
        await asyncio.Event().wait()
        return "never"

    return run


def limited(**limits: Any) -> RunConfig:
    return RunConfig(limits=Limits(**limits))


async def test_a_task_times_out_when_another_process_runs_the_timers() -> None:
    desk, store = Desk(), MemoryStore()
    boss = supervisor(
        [Agent("slow", run=hanging()), desk.agent("b")],
        task("slow"),
        task("b"),
        retries=0,
        timeout_s=1,
    )
    worker = Worker(store, Team(Agent("idle", run=hanging())))
    keeping = asyncio.create_task(worker.run())

    async with asyncio.timeout(60):
        state = await boss.run("x", session=Session("s1", store=store))
    worker.stop()
    await keeping

    assert {each.agent: each.error for each in state.results} == {
        "b": None,
        "slow": "it took too long",
    }


async def test_a_task_times_out_in_a_nested_plan() -> None:
    inner = supervisor([Agent("slow", run=hanging())], task("slow"), retries=0, timeout_s=60)
    outer = supervisor([inner], task("boss"), retries=0, timeout_s=0.1).clone(name="outer")

    async with asyncio.timeout(60):
        state = await outer.run("x")

    assert state.phase == "failed"
    assert "too long" in (state.error or "")


async def test_an_answered_task_continues_while_another_task_is_running() -> None:
    store, gate, order = MemoryStore(), asyncio.Event(), list[str]()

    async def ask(ctx: CodeContext) -> str:
        answer = await ctx.request_approval("go on?")
        order.append("approved")
        gate.set()
        return answer.choice

    async def long(ctx: CodeContext) -> str:
        await gate.wait()
        order.append("long")
        return "long"

    boss = supervisor([Agent("asks", run=ask), Agent("long", run=long)], task("asks"), task("long"))
    running = asyncio.create_task(boss.run("x", session=Session("s1", store=store)))
    inbox = Inbox(store)
    while not (items := (await inbox.list(InboxQuery())).items):
        await store.wait_for_change(1.0)
    await inbox.answer(items[0].id, choice="approve", by="ms.sato")

    async with asyncio.timeout(60):
        state = await running

    assert order == ["approved", "long"]
    assert state.phase == "completed"


async def test_resuming_a_failed_plan_retries_the_failed_tasks() -> None:
    desk = Desk()
    agents = [desk.agent("a"), desk.agent("b", RuntimeError("away"), "back")]
    boss = supervisor(agents, task("a"), task("b", "a"), retries=0)
    alone = supervisor([desk.agent("c", RuntimeError("away"), "back")], task("c"), retries=0)
    session = Session("s1", store=MemoryStore())

    with pytest.raises(PlanFailed):
        await Runner.run(alone, "x", session=session)
    result = await Runner.resume(alone, session)

    assert result.final_output == "back"
    assert (await plan_state(session.store, "s1")).phase == "completed"
    partial = await boss.run("x")
    assert [each.success for each in partial.results] == [True, False]


async def test_resuming_after_an_invalid_plan_asks_the_model_again() -> None:
    plan = {"tasks": [{"id": "t1", "agent": "a", "description": "do it"}], "reasoning": "easy"}
    model = ScriptedModel([say("no"), say("no"), say(dumps(plan))])
    boss = supervisor([Desk().agent("a")], model=model)
    assert boss.plan is not None
    boss = boss.clone(plan=PlanSettings(members=boss.plan.members))
    session = Session("s1", store=MemoryStore())

    with pytest.raises(ModelBehaviorError):
        await Runner.run(boss, "x", session=session)
    result = await Runner.resume(boss, session)

    assert result.final_output == "a did it"


async def test_finished_tasks_do_not_run_again_after_a_limit_is_raised() -> None:
    desk, model = Desk(), Meter()
    worker = Agent("worker", model=model)
    tasks = [AgentTask(agent="worker", description="w", task_id=str(n)) for n in range(3)]
    boss = supervisor([worker, desk.agent("b")], *tasks, concurrency=1, retries=0)
    session = Session("s1", store=MemoryStore())

    state = await boss.run("x", session=session, run_config=limited(tokens=150))

    assert model.calls == 2
    assert [each.success for each in state.results] == [True, True]
    assert "limit of 150 tokens" in (state.error or "")
    resumed = await Runner.resume(boss, session, run_config=limited(tokens=1000))
    assert isinstance(resumed.outcome, Done)
    assert model.calls == 3


async def test_a_handoffs_budget_holds_after_the_run_shared_its_limit() -> None:
    model = Meter()
    workers = [Agent(name, model=model) for name in "abcdef"]
    boss = supervisor(workers, *map(task, "abcdef"), retries=0)
    helper = Agent("helper", model=Meter(10))
    triage = Agent(
        "triage",
        model=ScriptedModel([call("helper", input="x"), transfer("boss")], usage=tokens(10)),
        tools=[helper.as_tool()],
        handoffs=[handoff(boss, budget=Budget(tokens=300))],
    )

    await Runner.run(triage, "x", run_config=limited(tokens=100_000))

    assert model.calls == 3


async def test_an_exceeded_handoff_budget_does_not_bind_the_source() -> None:
    boss = supervisor([Agent("a", model=Meter(500))], task("a"), task("a", id="2"), retries=0)
    model = ScriptedModel([transfer("boss"), say("I do it myself.")], usage=tokens(10))
    edge = handoff(boss, budget=Budget(tokens=5), completes="result")
    triage = Agent("triage", model=model, handoffs=[edge])

    result = await Runner.run(triage, "x")

    assert isinstance(result.outcome, Done)


async def test_usage_of_a_task_that_timed_out_is_counted() -> None:
    async def slow(ctx: CodeContext) -> str:
        await ctx.call_agent("meter", "x")
        await asyncio.Event().wait()
        return "never"

    meter = Agent("meter", model=Meter(70))
    slow_agent = Agent("slow", run=slow, tools=[meter.as_tool()])
    boss = supervisor(
        [slow_agent, Desk().agent("b")], task("slow"), task("b"), retries=0, timeout_s=1
    )

    result = await Runner.run(boss, "x")

    assert result.usage.tokens == 70


async def test_the_stream_shows_events_of_nested_sessions() -> None:
    leaf = Agent("leaf", model=ScriptedModel([say("1")]))
    middle = Agent(
        "middle", model=ScriptedModel([call("leaf", input="x"), say("2")]), tools=[leaf.as_tool()]
    )
    top = Agent(
        "top", model=ScriptedModel([call("middle", input="x"), say("3")]), tools=[middle.as_tool()]
    )
    run = Runner.run_streamed(top, "x")

    agents = {each.agent async for each in run.events() if isinstance(each, Event)}

    assert agents == {"top", "middle", "leaf"}


async def test_a_session_recreated_under_the_same_id_has_a_fresh_budget() -> None:
    store, model = MemoryStore(), Meter()
    boss = supervisor([Agent("a", model=model)], task("a"), task("a", id="2"), retries=0)
    await boss.run("x", session=Session("s1", store=store), run_config=limited(tokens=150))
    await delete_session(store, "s1")

    await boss.run("x", session=Session("s1", store=store), run_config=limited(tokens=150))

    assert model.calls == 4


async def test_tasks_that_use_the_limit_exactly_still_produce_an_answer() -> None:
    boss = supervisor([Agent("a", model=Meter(50))], task("a"), task("a", id="2"))

    state = await boss.run("x", run_config=limited(tokens=100))

    assert state.phase == "completed"
    assert all(each.success for each in state.results)


async def test_plan_events_omit_the_request_when_sensitive_data_is_excluded() -> None:
    session = Session("s1", store=MemoryStore())
    hidden = AgentTask(agent="a", description="tell SECRET", task_id="1")
    boss = supervisor([Desk().agent("a")], hidden)

    await boss.run(
        "SECRET",
        session=session,
        run_config=RunConfig(trace_include_sensitive_data=False),
    )

    told = [each.details for each in await session.events() if not each.items]
    assert "SECRET" not in dumps(told)


async def test_a_plan_that_exceeds_a_limit_names_the_limit() -> None:
    plan = ScriptedModel([], usage=tokens(10))
    boss = supervisor([Desk().agent("a")], task("a"), model=plan)
    assert boss.plan is not None
    boss = boss.clone(plan=PlanSettings(members=boss.plan.members))

    state = await boss.run("x", run_config=limited(tokens=0))

    assert state.phase == "failed"
    assert "tokens" in (state.error or "")


async def test_a_supervisors_budget_limits_its_tasks() -> None:
    model = Meter()
    workers = [Agent(name, model=model) for name in "abcdef"]
    boss = supervisor(workers, *map(task, "abcdef"), retries=0, budget=Budget(tokens=300))

    await boss.run("x")

    assert model.calls == 3


async def test_a_task_too_large_to_send_fails_without_the_other_tasks() -> None:
    desk = Desk()
    huge = AgentTask(agent="a", description="x", parameters={"x": "y" * 2_000_000}, task_id="1")
    boss = supervisor([desk.agent("a"), desk.agent("b")], huge, task("b"), aggregator=Side())

    state = await boss.run("x")

    assert {each.agent: each.success for each in state.results} == {"a": False, "b": True}


async def test_a_plan_can_have_two_hundred_tasks() -> None:
    desk = Desk()
    tasks = [task("a", id=str(number)) for number in range(200)]
    boss = supervisor([desk.agent("a", "x" * 10_000)], *tasks, max_tasks=200)

    state = await boss.run("x")

    assert len(state.results) == 200
    assert desk["a"] == 200
