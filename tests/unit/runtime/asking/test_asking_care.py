"""Questions under odd circumstances: slow people, code that does several things at once, floods."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ekiden.bus import Bus
from ekiden.core.agent import Agent, Team
from ekiden.core.conversation.messages import DEFAULT_LIMITS, AgentMessage, agent_queue
from ekiden.core.errors import UserError
from ekiden.core.errors.messages import BusError, MailboxFull, QueryFailed, QueryTimeout
from ekiden.core.questions import Ask
from ekiden.core.runs import Waiting
from ekiden.engine import BusServer, Worker, submit
from ekiden.inbox import Inbox
from ekiden.runtime import CodeContext, RunConfig, Runner
from ekiden.runtime.questions.due import run_timers
from ekiden.sessions import Session
from ekiden.storage.base import MessageSettle, QueuePut
from ekiden.storage.memory import MemoryStore
from ekiden.storage.timers import TIMERS
from ekiden.testing import ManualClock
from ekiden.tools import function_tool
from tests.unit.runtime.asking.desks import (
    open_items,
    open_waits,
    outcome,
    said,
    submitted,
    team_of,
    work,
)


class SlowDesk:
    """pm asks sales, sales asks legal, legal asks a person; no timers run meanwhile."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.store = MemoryStore(self.clock)
        self.config = RunConfig(clock=self.clock)
        self.after_the_person_s = 0.0

        async def pm(ctx: CodeContext[Any]) -> Any:
            try:
                return await ctx.ask("sales", "?", timeout_s=30)
            except QueryTimeout:
                return "too late"

        async def sales(ctx: CodeContext[Any]) -> Any:
            return await ctx.ask("legal", "?", timeout_s=30)

        async def legal(ctx: CodeContext[Any]) -> str:
            answer = await ctx.request_approval("?")
            self.clock.advance(self.after_the_person_s)
            await run_timers(self.store)
            return answer.choice

        self.team = team_of(pm=pm, sales=sales, legal=legal)

    async def answer(self) -> None:
        [item] = await open_items(self.store)
        await Inbox(self.store).answer(item.id, choice="approve", by="mira")


async def test_waiting_for_a_person_outlasts_the_timeout_without_running_timers() -> None:
    desk = SlowDesk()
    session = Session("s", store=desk.store)
    await Runner.run(desk.team, "go", session=session, run_config=desk.config)
    desk.clock.advance(3600)
    await desk.answer()
    result = await Runner.wait(desk.team, session, run_config=desk.config)
    assert result.final_output == "approve"


async def test_waiting_for_a_person_outlasts_the_timeout_with_workers() -> None:
    desk = SlowDesk()
    await submitted(desk.store, desk.team, desk.config)
    desk.clock.advance(3600)
    await run_timers(desk.store)
    assert await desk.store.list_documents(TIMERS) == [], "waiting for people needs no timer"
    await desk.answer()
    await run_timers(desk.store)
    desk.after_the_person_s = 29
    await work(desk.store, desk.team, desk.config)
    assert await said(desk.store) == "approve"


async def test_after_the_person_has_decided_the_time_runs_again() -> None:
    desk = SlowDesk()
    await submitted(desk.store, desk.team, desk.config)
    desk.clock.advance(3600)
    await run_timers(desk.store)
    await desk.answer()
    desk.after_the_person_s = 31
    await work(desk.store, desk.team, desk.config)
    assert await said(desk.store) == "too late"
    assert await open_waits(desk.store) == []


async def test_code_that_calls_a_tool_in_parallel_with_a_question_calls_it_once() -> None:
    calls: list[str] = []

    @function_tool
    async def charge() -> str:
        """Charge."""
        calls.append("begin")
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        calls.append("end")
        return "charged"

    async def pm(ctx: CodeContext[Any]) -> Any:
        return await asyncio.gather(ctx.ask("sales", "?"), ctx.call("charge"))

    async def sales(ctx: CodeContext[Any]) -> str:
        return "yes"

    team = Team(Agent("pm", run=pm, tools=[charge]), Agent("sales", run=sales))
    result = await Runner.run(team, "go", session=Session("s", store=MemoryStore()))
    assert result.final_output == ["yes", "charged"]
    assert calls == ["begin", "end"]
    assert [event.type for event in result.events].count("tool_call") == 1


async def test_a_message_before_a_question_to_people_is_delivered_once() -> None:
    async def pm(ctx: CodeContext[Any]) -> Any:
        await ctx.tell("archive", "begun")
        return (await ctx.request_approval("?")).choice

    async def archive(ctx: CodeContext[Any]) -> str:
        return "filed"

    store, team = MemoryStore(), team_of(pm=pm, archive=archive)
    await submitted(store, team)
    rows = {row.agent: row.outcome for row in (await store.list()).sessions}
    assert rows == {"pm": "waiting", "archive": "done"}
    [item] = await open_items(store)
    await Inbox(store).answer(item.id, choice="reject", by="mira")
    await work(store, team)
    assert await said(store) == "reject"
    assert len((await store.list()).sessions) == 2, "it is told once"


async def test_an_endless_chain_of_messages_between_agents_is_stopped() -> None:
    heard: list[str] = []

    async def echo(ctx: CodeContext[Any]) -> str:
        heard.append(ctx.agent.name)
        try:
            await ctx.tell("b" if ctx.agent.name == "a" else "a", "again")
        except BusError:
            return "enough"
        return "told"

    team = team_of(a=echo, b=echo)
    await Runner.run(team, "go")
    assert heard == ["a", "b", "a", "b", "a", "b"]


async def test_a_cycle_of_questions_through_a_team_and_the_bus_is_stopped() -> None:
    store = MemoryStore()

    async def pm(ctx: CodeContext[Any]) -> Any:
        try:
            return await ctx.ask("ext", "?", timeout_s=60)
        except BusError as exc:
            return exc.code

    team = team_of(pm=pm)
    worker = Worker(store, team)
    async with Bus(store) as bus:

        async def ext(message: AgentMessage) -> Any:
            return await bus.agent("ext").ask("pm", "?", timeout_s=60)

        async with BusServer(bus, store, team), bus.serve("ext", ext, concurrency=16):
            running = asyncio.create_task(worker.run())
            await submit(team, "go", session=Session("s", store=store))
            while (await outcome(store))[1] != "done":
                await store.wait_for_change(1)
            worker.stop()
            await running
    assert len((await store.list()).sessions) <= 6


async def test_a_cancelled_run_leaves_no_waits_and_can_be_resumed() -> None:
    asked = asyncio.Event()

    async def pm(ctx: CodeContext[Any]) -> Any:
        return await ctx.ask("slow", "?")

    async def slow(ctx: CodeContext[Any]) -> str:
        asked.set()
        await go.wait()
        return "at last"

    go, store = asyncio.Event(), MemoryStore()
    session, team = Session("s", store=store), team_of(pm=pm, slow=slow)
    running = asyncio.create_task(Runner.run(team, "go", session=session))
    await asked.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert await open_waits(store) == []
    go.set()
    assert (await Runner.resume(team, session)).final_output == "at last"


async def test_a_late_answer_to_one_of_several_is_enough() -> None:
    async def pm(ctx: CodeContext[Any]) -> Any:
        return await ctx.ask_any([Ask(agent="a", subject="?"), Ask(agent="b", subject="?")])

    async def waits(ctx: CodeContext[Any]) -> str:
        return (await ctx.request_approval("?")).choice

    store, team = MemoryStore(), team_of(pm=pm, a=waits, b=waits)
    await submitted(store, team)
    first, _ = await store.find_messages()
    settle = MessageSettle(key=first.key or "", state="timed_out", answer={"error": "late"})
    await store.settle_messages([settle])
    [item] = [each for each in await open_items(store) if each.from_agent == "a"]
    await Inbox(store).answer(item.id, choice="approve", by="mira")
    child = item.session_id or ""
    await Runner.resume(team, Session(child, store=store))
    await work(store, team)
    assert await said(store) == '["a","approve"]'
    assert await open_waits(store) == []
    assert await open_items(store) == []


async def test_a_full_mailbox_refuses_further_messages() -> None:
    store = MemoryStore()
    queue = agent_queue("elsewhere")
    await store.put_messages(
        [QueuePut(queue=queue, body=1) for _ in range(DEFAULT_LIMITS.mailbox_bound)]
    )

    async def pm(ctx: CodeContext[Any]) -> Any:
        await ctx.tell("elsewhere", "one more")

    with pytest.raises(MailboxFull, match="elsewhere"):
        await Runner.run(team_of(pm=pm), "go", session=Session("s", store=store))
    assert await store.queue_depth(queue) == DEFAULT_LIMITS.mailbox_bound


async def test_questions_and_answers_are_not_for_carrying_files() -> None:
    huge = "x" * DEFAULT_LIMITS.max_payload

    async def asks(ctx: CodeContext[Any]) -> Any:
        return await ctx.ask("sales", "?", huge)

    async def small(ctx: CodeContext[Any]) -> Any:
        return await ctx.ask("sales", "?")

    async def sales(ctx: CodeContext[Any]) -> str:
        return huge

    with pytest.raises(UserError, match="and the maximum is"):
        await Runner.run(team_of(pm=asks, sales=sales), "go")
    with pytest.raises(QueryFailed, match="more than the"):
        await Runner.run(team_of(pm=small, sales=sales), "go")


async def test_an_unreadable_timer_does_not_block_other_timers() -> None:
    clock = ManualClock()
    store = MemoryStore(clock)

    async def pm(ctx: CodeContext[Any]) -> Any:
        return (await ctx.request_approval("?", deadline_s=5, default="reject")).choice

    result = await Runner.run(team_of(pm=pm), "go", session=Session("s", store=store))
    assert isinstance(result.outcome, Waiting)
    broken = QueuePut(queue="agent:x", body={"nonsense": 1}, key="m", waiter="x", session_id="s")
    await store.put_messages([broken])
    from ekiden.storage.timers import Timer, timer_write

    await store.write_documents([timer_write(Timer(due_us=1, kind="query", id="m"))])
    clock.advance(6)
    await run_timers(store)
    assert await open_items(store) == []
    assert await store.list_documents(TIMERS) == []
