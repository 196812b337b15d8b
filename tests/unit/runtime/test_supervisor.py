"""A request that is split among agents: what is run, in which order, and what comes of it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from ekiden.core.agent import Agent, Team
from ekiden.core.errors import UserError
from ekiden.core.events import Event
from ekiden.core.plan import (
    AgentTask,
    AskModel,
    Member,
    MultiAgentState,
    PlanFailed,
    TaskDecomposition,
)
from ekiden.core.runs import Done
from ekiden.engine import Worker, submit
from ekiden.handoff import handoff
from ekiden.inbox import Inbox, InboxQuery
from ekiden.runtime import CodeContext, RunConfig, Runner
from ekiden.runtime.plan_steps import plan_state
from ekiden.runtime.supervisor import Supervisor
from ekiden.sessions import Session
from ekiden.storage.memory import MemoryStore
from ekiden.testing import ManualClock, ScriptedModel, say, transfer
from tests.support.cases import each_case


class Split:
    """A decomposer that returns a given plan."""

    def __init__(self, *tasks: AgentTask) -> None:
        self.tasks = tasks
        self.calls = 0

    async def decompose(
        self, text: str, *, members: Sequence[Member], fallback: str | None, ask: AskModel | None
    ) -> TaskDecomposition:
        self.calls += 1
        return TaskDecomposition(tasks=self.tasks)


class Side:
    """An aggregator that puts results side by side."""

    async def aggregate(self, state: MultiAgentState, *, ask: AskModel | None) -> str:
        return " | ".join(
            f"{each.agent}: {each.data if each.success else f'missing ({each.error})'}"
            for each in sorted(state.results, key=lambda each: each.agent)
        )


def task(agent: str, *needs: str, id: str | None = None) -> AgentTask:
    return AgentTask(
        agent=agent, description=f"work of {agent}", depends_on=needs, task_id=id or agent
    )


class Desk:
    """Agents that are code and count what they did."""

    def __init__(self) -> None:
        self.read: dict[str, list[str]] = {}
        self.at_work = 0
        self.most_at_work = 0

    def agent(self, name: str, *outcomes: Any, together: asyncio.Barrier | None = None) -> Agent:
        """One that gives the outcomes one after the other, the last one again and again."""
        left = list(outcomes) or [f"{name} did it"]

        async def run(ctx: CodeContext) -> Any:
            self.read.setdefault(name, []).append(ctx.text)
            self.at_work += 1
            self.most_at_work = max(self.most_at_work, self.at_work)
            try:
                if together is not None:
                    await together.wait()
                else:
                    await asyncio.sleep(0)
                outcome = left.pop(0) if len(left) > 1 else left[0]
                if isinstance(outcome, Exception):
                    raise outcome
                return outcome
            finally:
                self.at_work -= 1

        return Agent(name, run=run)

    def __getitem__(self, name: str) -> int:
        return len(self.read.get(name, ()))


def supervisor(agents: Sequence[Agent], *tasks: AgentTask, **options: Any) -> Supervisor:
    options = {"backoff_s": 0.0, "aggregator": Side(), **options}
    return Supervisor("boss", agents=agents, decomposer=Split(*tasks), **options)


async def test_a_supervisor_runs_tasks_in_parallel_and_combines_their_answers() -> None:
    desk, together = Desk(), asyncio.Barrier(3)
    agents = [desk.agent(name, together=together) for name in "abc"]

    state = await supervisor(agents, *map(task, "abc")).run("all of it")

    assert state.phase == "completed"
    assert state.final_response == "a: a did it | b: b did it | c: c did it"
    assert state.error is None
    assert state.pending_tasks == ()
    assert {each.agent for each in state.results} == {"a", "b", "c"}
    assert all(each.execution_time >= 0 for each in state.results)


async def test_a_tasks_execution_time_starts_with_the_task_not_the_plan() -> None:
    clock = ManualClock()

    class LongThought(Split):
        async def decompose(self, *args: Any, **options: Any) -> TaskDecomposition:
            clock.advance(100)
            return await super().decompose(*args, **options)

    async def quick(ctx: CodeContext) -> str:
        clock.advance(2)
        return "done"

    boss = Supervisor(
        "boss", agents=[Agent("a", run=quick)], decomposer=LongThought(task("a")), timeout_s=60
    )
    session = Session("s1", store=MemoryStore(clock))
    state = await boss.run("think", session=session, run_config=RunConfig(clock=clock))

    assert state.final_response == "done"
    assert [each.execution_time for each in state.results] == [2.0]


@pytest.mark.parametrize("problem", [ValueError("boom"), asyncio.CancelledError(), SystemExit(3)])
async def test_a_failed_aggregator_returns_the_single_results_and_the_reason(
    problem: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken:
        async def aggregate(self, state: MultiAgentState, *, ask: AskModel | None) -> str:
            raise problem

    desk = Desk()
    boss = supervisor([desk.agent("a"), desk.agent("b")], task("a"), task("b"), aggregator=Broken())
    result = await Runner.run(boss, "both")

    told = f"{type(problem).__name__}: {problem}"
    assert result.final_output == (
        f"## a\n\na did it\n\n## b\n\nb did it\n\n## Not summed up\n\n{told}"
    )
    assert result.warnings == [f"aggregator of 'boss': {told}"]
    assert "Traceback" in caplog.text


async def test_a_task_starts_after_its_dependencies_and_reads_their_results() -> None:
    desk = Desk()
    agents = [desk.agent("a", "42"), desk.agent("b"), desk.agent("c")]

    state = await supervisor(agents, task("c", "b"), task("b", "a"), task("a")).run("in order")

    assert [each.agent for each in state.results] == ["a", "b", "c"]
    assert "42" in desk.read["b"][0]
    assert "b did it" in desk.read["c"][0]
    assert "42" not in desk.read["c"][0]


async def test_a_supervisor_limits_the_number_of_parallel_tasks() -> None:
    desk = Desk()
    agents = [desk.agent("a")]
    tasks = [task("a", id=str(number)) for number in range(9)]

    state = await supervisor(agents, *tasks, concurrency=2).run("a lot")

    assert len(state.results) == 9
    assert desk.most_at_work <= 2


async def test_a_failed_task_is_named_in_the_answer_and_the_others_finish() -> None:
    desk = Desk()
    agents = [desk.agent("a"), desk.agent("b", RuntimeError("no such flight"))]

    state = await supervisor(agents, task("a"), task("b"), retries=0).run("both")

    assert state.phase == "completed"
    assert state.final_response is not None
    assert "a: a did it" in state.final_response
    assert "missing" in state.final_response
    assert "no such flight" in state.final_response


async def test_a_task_that_depends_on_a_failed_task_is_skipped() -> None:
    desk = Desk()
    agents = [desk.agent("a", RuntimeError("gone")), desk.agent("b"), desk.agent("c")]

    state = await supervisor(agents, task("a"), task("b", "a"), task("c"), retries=0).run("x")

    assert desk["b"] == 0
    by_agent = {each.agent: each for each in state.results}
    assert not by_agent["b"].success
    assert by_agent["c"].success


async def test_a_plan_whose_tasks_all_fail_raises_plan_failed() -> None:
    desk = Desk()
    boss = supervisor([desk.agent("a", RuntimeError("gone"))], task("a"), retries=0)

    state = await boss.run("x")

    assert state.phase == "failed"
    assert state.final_response is None
    assert state.error is not None
    assert "gone" in state.error
    with pytest.raises(PlanFailed) as raised:
        await Runner.run(boss, "x")
    assert raised.value.code == "plan.failed"


async def test_a_failed_task_is_retried_after_a_pause() -> None:
    desk = Desk()
    agents = [desk.agent("a", RuntimeError("busy"), RuntimeError("busy"), "at last")]

    state = await supervisor(agents, task("a"), retries=2, backoff_s=0.01).run("x")

    assert state.final_response == "at last"
    assert desk["a"] == 3


async def test_a_task_fails_after_its_last_attempt_with_the_number_of_attempts() -> None:
    desk = Desk()
    agents = [desk.agent("a", RuntimeError("busy")), desk.agent("b")]

    state = await supervisor(agents, task("a"), task("b"), retries=2).run("x")

    assert desk["a"] == 3
    [failed] = [each for each in state.results if not each.success]
    assert failed.error is not None
    assert "after 3 attempts" in failed.error


async def test_a_task_that_takes_too_long_times_out() -> None:
    desk = Desk()

    async def hang(ctx: CodeContext) -> str:
        await asyncio.Event().wait()
        return "never"

    agents = [Agent("slow", run=hang), desk.agent("b")]

    state = await supervisor(agents, task("slow"), task("b"), retries=0, timeout_s=1).run("x")

    by_agent = {each.agent: each for each in state.results}
    assert by_agent["b"].success
    assert by_agent["slow"].error == "it took too long"


async def test_the_result_of_a_single_task_is_the_answer_without_another_call() -> None:
    model = ScriptedModel([])
    boss = supervisor([Desk().agent("a", "just this")], task("a"), model=model)

    state = await boss.run("x")

    assert state.final_response == "just this"
    assert model.calls == []


async def test_structured_results_are_passed_on() -> None:
    state = await supervisor([Desk().agent("a", {"warm": True})], task("a")).run("x")

    assert state.results[0].data == {"warm": True}
    assert state.final_response == '{"warm":true}'


async def test_an_empty_result_is_a_success() -> None:
    async def nothing(ctx: CodeContext) -> None:
        return None

    state = await supervisor([Agent("a", run=nothing)], task("a")).run("x")

    assert state.results[0].success
    assert state.results[0].data == ""


async def test_each_phase_and_each_task_is_an_event() -> None:
    desk, session = Desk(), Session(store=MemoryStore())
    agents = [desk.agent("a"), desk.agent("b", RuntimeError("gone"))]

    await supervisor(agents, task("a"), task("b"), retries=0).run("x", session=session)

    told = [each.details or {} for each in await session.events() if each.type == "task"]
    assert [each["phase"] for each in told] == [
        "decomposed",
        "started",
        "started",
        *["finished"] * 2,
        "aggregating",
        "completed",
    ]
    finished = {each["agent"]: each["success"] for each in told if each["phase"] == "finished"}
    assert finished == {"a": True, "b": False}


async def test_the_stream_shows_tasks_as_they_begin_and_end_and_what_their_agents_do() -> None:
    desk = Desk()
    boss = supervisor([desk.agent("a"), desk.agent("b")], task("a"), task("b"))
    run = Runner.run_streamed(boss, "x")

    seen = [shown async for shown in run.events()]

    tasks = [each for each in seen if isinstance(each, Event) and each.type == "task"]
    phases = [(each.details or {})["phase"] for each in tasks]
    assert phases.count("started") == phases.count("finished") == 2
    own = run.result.session_id
    others = {each.agent for each in seen if getattr(each, "session_id", own) != own}
    assert others == {"a", "b"}


async def test_a_supervisor_can_be_handed_to() -> None:
    desk = Desk()
    boss = supervisor([desk.agent("a"), desk.agent("b")], task("a"), task("b"))
    triage = Agent("triage", model=ScriptedModel([transfer("boss")]), handoffs=[boss])

    result = await Runner.run(triage, "both, please")

    assert result.chain == ["user", "triage", "boss"]
    assert result.final_output == "a: a did it | b: b did it"


async def test_a_handoff_to_a_failing_supervisor_is_rolled_back() -> None:
    boss = supervisor([Desk().agent("a", RuntimeError("gone"))], task("a"), retries=0)
    model = ScriptedModel([transfer("boss"), say("I am sorry.")])
    triage = Agent("triage", model=model, handoffs=[handoff(boss)])

    result = await Runner.run(triage, "please")

    assert result.last_agent is triage
    assert result.final_output == "I am sorry."


async def test_a_supervisor_can_be_a_member_of_another_one() -> None:
    desk = Desk()
    inner = Supervisor(
        "inner", agents=[desk.agent("a")], decomposer=Split(task("a")), aggregator=Side()
    )
    outer = Supervisor(
        "outer",
        agents=[inner, desk.agent("b")],
        decomposer=Split(task("inner"), task("b")),
        aggregator=Side(),
    )

    state = await outer.run("x")

    assert state.final_response == "b: b did it | inner: a did it"


async def test_a_task_waiting_for_people_suspends_the_plan_and_keeps_results() -> None:
    desk, store = Desk(), MemoryStore()

    async def careful(ctx: CodeContext) -> str:
        answer = await ctx.request_approval("book it?")
        return f"booked: {answer.choice}"

    boss = supervisor([Agent("booking", run=careful), desk.agent("b")], task("booking"), task("b"))
    session = Session("s1", store=store)

    waiting = await boss.run("x", session=session)
    [item] = (await Inbox(store).list(InboxQuery())).items
    assert waiting.phase == "executing"
    assert [each.agent for each in waiting.results] == ["b"]
    assert (await store.get("s1")).status == "waiting"

    await Inbox(store).answer(item.id, choice="approve", by="ms.sato")
    result = await Runner.resume(boss, session)

    assert result.final_output == "b: b did it | booking: booked: approve"
    assert desk["b"] == 1
    assert (await plan_state(store, "s1")).phase == "completed"


async def test_workers_share_the_tasks_of_a_plan() -> None:
    desk, store = Desk(), MemoryStore()
    boss = supervisor([desk.agent("a"), desk.agent("b")], task("a"), task("b", "a"))
    session = Session("s1", store=store)
    await submit(boss, "x", session=session)

    await Worker(store, Team(boss)).run(until_idle=True)

    assert (await plan_state(store, "s1")).final_response == "a: a did it | b: b did it"
    assert (desk["a"], desk["b"]) == (1, 1)


async def test_agents_of_different_tasks_that_ask_each_other_do_not_deadlock() -> None:
    async def first(ctx: CodeContext) -> str:
        if "work of" in ctx.text:
            return str(await ctx.ask("second", "what do you say?"))
        return "first says"

    async def second(ctx: CodeContext) -> str:
        if "work of" in ctx.text:
            return str(await ctx.ask("first", "what do you say?"))
        return "second says"

    agents = [Agent("first", run=first), Agent("second", run=second)]

    state = await supervisor(agents, task("first"), task("second"), retries=0).run("x")

    assert state.final_response == "first: second says | second: first says"


@each_case(
    ("options", "problem"),
    [
        ({"agents": []}, "at least one agent"),
        ({"agents": ["a"]}, "Agent objects"),
        ({"agents": [Agent("a")], "fallback": "b"}, "fallback"),
        ({"agents": [Agent("a"), Agent("a")]}, "the same name"),
        ({"agents": [Agent("a")], "concurrency": 0}, "concurrency"),
        ({"agents": [Agent("a")], "timeout_s": 0}, "timeout_s"),
        ({"agents": [Agent("a")], "retries": -1}, "retries"),
    ],
)
def test_an_invalid_supervisor_is_refused_when_it_is_created(
    options: dict[str, Any], problem: str
) -> None:
    with pytest.raises(UserError, match=problem):
        Supervisor("boss", **options)


async def test_a_plan_with_unknown_agents_or_too_many_tasks_is_refused() -> None:
    agent = Desk().agent("a")
    for boss in (
        supervisor([agent], task("stranger")),
        supervisor([agent], *[task("a", id=str(each)) for each in range(3)], max_tasks=2),
    ):
        with pytest.raises(UserError):
            await Runner.run(boss, "x")


async def test_a_session_without_a_plan_has_no_state_of_one() -> None:
    session = Session("s1", store=MemoryStore())
    await Runner.run(Agent("a", model=ScriptedModel([say("hi")])), "x", session=session)

    with pytest.raises(UserError, match="no plan"):
        await plan_state(session.store, "s1")


async def test_a_copy_of_a_supervisor_is_one() -> None:
    boss = supervisor([Desk().agent("a")], task("a"))

    other = boss.clone(name="other")

    assert (other.name, boss.name) == ("other", "boss")
    assert (await other.run("x")).final_response == "a did it"
    with pytest.raises(UserError, match="no field"):
        boss.clone(members=[])


async def test_a_cancelled_supervisor_cancels_its_tasks_and_can_be_resumed() -> None:
    desk, gate = Desk(), asyncio.Event()
    cancelled: list[str] = []

    async def wait(ctx: CodeContext) -> str:
        try:
            await gate.wait()
        except asyncio.CancelledError:
            cancelled.append("a")
            raise
        return "waited"

    boss = supervisor([Agent("a", run=wait), desk.agent("b")], task("a"), task("b"))
    session = Session("s1", store=MemoryStore())
    running = asyncio.create_task(Runner.run(boss, "x", session=session))
    while not any(
        each.type == "task" and (each.details or {})["phase"] == "finished"
        for each in await session.store.events("s1")
    ):
        await session.store.wait_for_change(1.0)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert cancelled == ["a"]

    gate.set()
    result = await Runner.resume(boss, session)

    assert isinstance(result.outcome, Done)
    assert result.final_output == "a: waited | b: b did it"
    assert desk["b"] == 1
