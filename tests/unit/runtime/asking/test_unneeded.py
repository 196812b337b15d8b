"""Questions whose answers are not needed any more."""

from __future__ import annotations

import asyncio
from typing import Any

from ekiden.core.agent import Agent, Team
from ekiden.core.context import ToolContext
from ekiden.core.errors.messages import QueryTimeout
from ekiden.core.questions import Ask, InboxItem
from ekiden.engine import submit
from ekiden.handoff import handoff
from ekiden.inbox import Inbox
from ekiden.runtime import CodeContext, HandoffController, RunConfig, Runner
from ekiden.runtime.questions.due import run_timers
from ekiden.sessions import Session
from ekiden.storage.memory import MemoryStore
from ekiden.testing import ManualClock, ScriptedModel, call, say
from ekiden.tools import function_tool
from tests.unit.runtime.asking.desks import (
    MODES,
    answers,
    asks_people,
    open_items,
    open_waits,
    outcome,
    run,
    said,
    session_of,
    submitted,
    team_of,
    work,
)


def asking_any(*names: str, timeout_s: float = 30.0) -> Any:
    """Code that needs one answer of several."""

    async def code(ctx: CodeContext[Any]) -> str:
        asks = [Ask(agent=name, subject="?", timeout_s=timeout_s) for name in names]
        who, answer = await ctx.ask_any(asks)
        return f"{who}: {answer}"

    return code


@MODES
async def test_ask_any_cancels_the_inbox_items_of_the_other_agents(mode: str) -> None:
    store = MemoryStore()
    team = team_of(pm=asking_any("waits", "good"), waits=asks_people, good=answers)
    await run(mode, store, team)
    assert await said(store) == "good: yes"
    assert await open_items(store) == []
    row = await session_of(store, "waits")
    assert (row.status, row.outcome) == ("idle", "failed")
    events = await store.events(row.id)
    assert (events[-1].details or {})["code"] == "ask.withdrawn"


async def test_ask_any_cancels_the_slower_sessions() -> None:
    never = asyncio.Event()

    async def slow(ctx: CodeContext[Any]) -> Any:
        return await ctx.ask("slower", "?")

    async def slower(ctx: CodeContext[Any]) -> str:
        await never.wait()
        return "too late"

    store = MemoryStore()
    team = team_of(pm=asking_any("slow", "good"), slow=slow, slower=slower, good=answers)
    async with asyncio.timeout(60):
        await run("inline", store, team)
    assert await said(store) == "good: yes"
    assert await open_waits(store) == []
    for agent in ("slow", "slower"):
        row = await session_of(store, agent)
        assert (row.status, row.outcome, row.owner) == ("idle", "failed", None)


async def test_a_question_that_timed_out_cancels_the_asked_sessions() -> None:
    clock = ManualClock()
    store, config = MemoryStore(clock), RunConfig(clock=clock)
    never = asyncio.Event()

    async def pm(ctx: CodeContext[Any]) -> str:
        try:
            return str(await ctx.ask("slow", "?", timeout_s=0.01))
        except QueryTimeout:
            return "then not"

    async def slow(ctx: CodeContext[Any]) -> Any:
        return await ctx.ask("slower", "?", timeout_s=1000)

    async def slower(ctx: CodeContext[Any]) -> str:
        clock.advance(0.02)
        await never.wait()
        return "too late"

    await run("inline", store, team_of(pm=pm, slow=slow, slower=slower), config)
    assert await said(store) == "then not"
    assert await open_waits(store) == []
    assert {row.status for row in (await store.list()).sessions} == {"idle"}


async def test_after_a_timeout_of_one_question_the_other_sessions_finish() -> None:
    clock = ManualClock()
    store, config = MemoryStore(clock), RunConfig(clock=clock)
    never, may_go_on = asyncio.Event(), asyncio.Event()
    done: list[str] = []

    async def pm(ctx: CodeContext[Any]) -> str:
        try:
            await ctx.ask_all(
                [
                    Ask(agent="hangs", subject="?", timeout_s=0.01),
                    Ask(agent="works", subject="?", timeout_s=1000),
                ]
            )
        except QueryTimeout:
            return "one was too slow"
        return "both"

    async def hangs(ctx: CodeContext[Any]) -> str:
        await never.wait()
        return ""

    async def works(ctx: CodeContext[Any]) -> Any:
        return await ctx.ask("helper", "?", timeout_s=1000)

    async def helper(ctx: CodeContext[Any]) -> str:
        await ctx.call("note")
        if not may_go_on.is_set():
            clock.advance(0.02)
            may_go_on.set()
            await never.wait()
        return "done"

    @function_tool
    async def note() -> str:
        """Note."""
        done.append("noted")
        return "noted"

    team = team_of(pm=pm, hangs=hangs, works=works)
    team = Team(*team, Agent("helper", run=helper, tools=[note]))
    await run("inline", store, team, config)
    assert await said(store) == "one was too slow"
    assert done == ["noted"], "whoever was at work went on where it was"
    assert (await session_of(store, "works")).outcome == "done"


async def test_a_withdrawn_question_stops_the_asked_agent_before_it_posts_an_item() -> None:
    store = MemoryStore()
    asked, go_on = asyncio.Event(), asyncio.Event()

    async def pm(ctx: CodeContext[Any]) -> Any:
        return "never mind" if ctx.text == "forget it" else await ctx.ask("sales", "?")

    async def sales(ctx: CodeContext[Any]) -> str:
        asked.set()
        await go_on.wait()
        return await asks_people(ctx)

    team = team_of(pm=pm, sales=sales)
    session = Session("s", store=store)
    await submit(team, "go", session=session)
    working = asyncio.create_task(work(store, team))
    await asked.wait()
    assert (await Runner.run(team, "forget it", session=session)).final_output == "never mind"
    go_on.set()
    await working
    assert await open_items(store) == []
    row = await session_of(store, "sales")
    assert (row.status, row.outcome) == ("idle", "failed")
    [message] = await store.find_messages()
    assert message.state == "cancelled"


async def test_an_answered_question_leaves_no_timer() -> None:
    async def pm(ctx: CodeContext[Any]) -> Any:
        return await ctx.ask("sales", "?")

    store = MemoryStore()
    await run("inline", store, team_of(pm=pm, sales=answers))
    assert await store.list_documents("timers") == []


async def test_a_rolled_back_question_to_people_restarts_the_timeout() -> None:
    """pm asks front, who hands to clerk, who asks people; the handoff is taken back."""
    clock = ManualClock()
    store, config = MemoryStore(clock), RunConfig(clock=clock)

    async def pm(ctx: CodeContext[Any]) -> str:
        try:
            return str(await ctx.ask("front", "?", timeout_s=5))
        except QueryTimeout:
            return "too slow"

    async def front(ctx: CodeContext[Any]) -> Any:
        if "clerk" in ctx.failed_handoffs:
            return "front itself"
        return ctx.hand_off("clerk")

    clerk = Agent("clerk", run=asks_people)
    team = Team(
        Agent("pm", run=pm),
        Agent("front", run=front, handoffs=[handoff(clerk, completes="result")]),
    )
    await submitted(store, team, config)
    clock.advance(60)
    await run_timers(store)
    assert await outcome(store) == ("waiting", "waiting"), "a person is waited for"
    child = await session_of(store, "clerk")
    controller = HandoffController(team, store, run_config=config)
    assert (await controller.cancel(f"{child.id}.h1")).status == "rolled_back"
    assert await open_items(store) == []
    clock.advance(6)
    assert await run_timers(store) == 1
    claimed, _ = await store.claim(child.id, owner="test", lease_s=1000)
    await work(store, team, config)
    assert await said(store) == "too slow"
    await store.release(claimed)


async def test_the_runtime_withdraws_a_question_in_a_run_inside_a_tool() -> None:
    """The code of the outer agent runs meanwhile, and an agent may not touch the inbox."""
    store = MemoryStore()
    inner = team_of(pm=asking_any("waits", "good"), waits=asks_people, good=answers)

    @function_tool
    async def delegate(ctx: ToolContext[Any]) -> str:
        """Delegate."""
        result = await Runner.run(inner, "go", session=Session("inner", store=store))
        return str(result.final_output)

    model = ScriptedModel([call("delegate"), say("done")])
    outer = Agent("outer", model=model, tools=[delegate])
    await Runner.run(outer, "go", session=Session("s", store=store))
    assert model.calls[-1].input[-1]["output"] == "good: yes"
    assert await open_items(store) == []


async def test_ask_any_leaves_inbox_items_without_a_session_open() -> None:
    store = MemoryStore()
    item = InboxItem(kind="approval", from_agent="pm", subject="?", options=("yes", "no"))
    await Inbox(store).post(item)
    team = team_of(pm=asking_any("waits", "good"), waits=asks_people, good=answers)
    await run("worker", store, team)
    assert [each.id for each in await open_items(store)] == [item.id]
