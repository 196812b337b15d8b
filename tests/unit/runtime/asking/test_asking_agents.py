"""Agents ask each other from their code: in one process, and with workers."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel

from ekiden.core.agent import Agent, Team
from ekiden.core.context import RunContextWrapper, ToolContext
from ekiden.core.errors import UserError
from ekiden.core.errors.messages import (
    AgentUnavailableError,
    BusError,
    DeadlockError,
    QueryFailed,
    QueryTimeout,
)
from ekiden.core.questions import Ask
from ekiden.core.runs import Waiting
from ekiden.engine import Worker, submit
from ekiden.inbox import Inbox
from ekiden.runtime import CodeContext, Limits, RunConfig, Runner
from ekiden.runtime.questions.due import run_timers
from ekiden.sessions import Session
from ekiden.storage.base import MessageFilter
from ekiden.storage.memory import MemoryStore
from ekiden.testing import ManualClock, ScriptedModel, call, say
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


async def sales(ctx: CodeContext[Any]) -> Any:
    return {"customer": 42, "asked": ctx.received}


async def test_an_agent_asks_another_agent_and_uses_the_answer() -> None:
    async def pm(ctx: CodeContext[Any]) -> str:
        data = await ctx.ask("sales", "customer data", {"id": 42})
        return f"got {data['customer']} for {data['asked']['from']}: {data['asked']['context']}"

    result = await Runner.run(team_of(pm=pm, sales=sales), "go")
    assert result.final_output == 'got 42 for pm: {"id":42}'
    assert result.chain == ["user", "pm"], "the conversation stays where it is"


async def test_with_workers_the_asker_is_suspended_and_woken() -> None:
    seen: list[tuple[str, str | None]] = []
    store = MemoryStore()

    async def pm(ctx: CodeContext[Any]) -> str:
        return f"got {(await ctx.ask('sales', 'customer data'))['customer']}"

    async def slow_sales(ctx: CodeContext[Any]) -> Any:
        seen.append(await outcome(store))
        assert (await store.get("s")).owner is None, "nobody holds the session of who waits"
        assert await open_waits(store) == ["pm#s -> sales#s"]
        return await sales(ctx)

    await submitted(store, team_of(pm=pm, sales=slow_sales))
    assert seen == [("waiting", "waiting")]
    assert await outcome(store) == ("idle", "done")
    assert await said(store) == "got 42"
    assert await open_waits(store) == []
    [message] = await store.find_messages()
    assert message.state == "answered", "it can be looked at as long as retention says"


async def test_a_question_and_its_answer_are_recorded_as_events() -> None:
    async def pm(ctx: CodeContext[Any]) -> Any:
        return await ctx.ask("sales", "客户数据", priority="urgent")

    session = Session("s", store=MemoryStore())
    await Runner.run(team_of(pm=pm, sales=sales), "go", session=session)
    details = [event.details for event in await session.events() if event.details]
    [asks] = [each["asks"] for each in details if "asks" in each]
    [answer] = [each["answer"] for each in details if "answer" in each]
    assert (asks["to"], asks["subject"]) == ("sales", "客户数据")
    assert answer == {"id": asks["id"], "from": "sales", "state": "answered"}
    child = await session.store.get(asks["session"])
    assert (child.agent, child.outcome) == ("sales", "done")
    assert child.meta["asked_by"] == "pm"
    [first, *_] = await session.store.events(child.id)
    assert "客户数据" in first.items[0]["content"]


async def test_code_before_a_question_is_replayed_without_repeating_its_effects() -> None:
    runs: list[str] = []
    store = MemoryStore()

    @function_tool
    async def note() -> str:
        """Note."""
        runs.append("tool")
        return "noted"

    async def pm(ctx: CodeContext[Any]) -> str:
        runs.append("code")
        await ctx.call("note")
        ctx.publish("seen")
        ctx.set("visits", ctx.get("visits", 0) + 1)
        first = await ctx.ask("sales", "one")
        second = await ctx.ask("sales", "two")
        return f"{first['customer']} {second['customer']} {ctx.get('visits')}"

    team = Team(Agent("pm", run=pm, tools=[note]), Agent("sales", run=sales))
    result = await Runner.run(team, "go", session=Session("s", store=store))
    assert runs.count("code") == 3
    assert runs.count("tool") == 1
    assert result.final_output == "42 42 1"
    published = [e for e in result.events if e.details and "published" in e.details]
    assert len(published) == 1
    assert [e.type for e in result.events].count("agent_start") == 1


async def test_a_tool_that_asks_is_rerun_and_parallel_tools_run_once() -> None:
    ran: list[str] = []

    @function_tool
    async def quote(ctx: ToolContext[Any], item: str) -> str:
        """Quote."""
        ran.append("quote")
        answer = await ctx.ask("sales", "price", {"item": item})
        return f"{item} costs {answer['customer']}"

    @function_tool
    async def stock() -> str:
        """Stock."""
        ran.append("stock")
        return "3 left"

    for mode in ("inline", "worker"):
        ran.clear()
        model = ScriptedModel([[call("quote", item="lamp"), call("stock")], say("42, 3 left")])
        team = Team(Agent("desk", model=model, tools=[quote, stock]), Agent("sales", run=sales))
        store = MemoryStore()
        if mode == "inline":
            await Runner.run(team, "go", session=Session("s", store=store))
        else:
            await submitted(store, team)
        assert await said(store) == "42, 3 left"
        assert (ran.count("quote"), ran.count("stock")) == (2, 1), mode
        outputs = [item for item in model.calls[-1].input if "output" in item]
        assert [item["output"] for item in outputs] == ["lamp costs 42", "3 left"]


async def test_ask_all_returns_the_answers_in_order() -> None:
    async def pm(ctx: CodeContext[Any]) -> Any:
        return await ctx.ask_all([Ask(agent="a", subject="?"), Ask(agent="b", subject="?")])

    async def a(ctx: CodeContext[Any]) -> str:
        return "from a"

    async def b(ctx: CodeContext[Any]) -> str:
        return "from b"

    team = team_of(pm=pm, a=a, b=b)
    assert (await Runner.run(team, "go")).final_output == ["from a", "from b"]
    store = MemoryStore()
    await submitted(store, team)
    assert await said(store) == '["from a","from b"]'


async def test_ask_any_returns_the_first_successful_answer() -> None:
    async def pm(ctx: CodeContext[Any]) -> Any:
        who, answer = await ctx.ask_any(
            [
                Ask(agent="broken", subject="?"),
                Ask(agent="waits", subject="?"),
                Ask(agent="good", subject="?"),
            ]
        )
        return f"{who}: {answer}"

    async def broken(ctx: CodeContext[Any]) -> str:
        raise ValueError("no idea")

    async def waits(ctx: CodeContext[Any]) -> str:
        return (await ctx.request_approval("may I?")).choice

    async def good(ctx: CodeContext[Any]) -> str:
        return "yes"

    store = MemoryStore()
    await submitted(store, team_of(pm=pm, broken=broken, waits=waits, good=good))
    assert await said(store) == "good: yes"
    states = {m.body["to_agent"]: m.state for m in await store.find_messages()}
    assert states == {"broken": "failed", "good": "answered", "waits": "cancelled"}


async def test_ask_any_raises_the_last_failure_if_all_fail() -> None:
    async def pm(ctx: CodeContext[Any]) -> Any:
        return await ctx.ask_any([Ask(agent="x", subject="?"), Ask(agent="y", subject="?")])

    async def fails(ctx: CodeContext[Any]) -> str:
        raise ValueError(f"not {ctx.agent.name}")

    with pytest.raises(QueryFailed, match="'y' could not answer: ValueError: not y"):
        await Runner.run(team_of(pm=pm, x=fails, y=fails), "go")


async def test_a_failure_of_the_asked_agent_is_raised_in_the_asking_code() -> None:
    async def pm(ctx: CodeContext[Any]) -> str:
        try:
            await ctx.ask("sales", "?")
        except QueryFailed as exc:
            return f"{exc.agent}: {exc.error} ({exc.error_code})"
        return "unreachable"

    async def broken(ctx: CodeContext[Any]) -> str:
        raise UserError("closed on Sundays")

    result = await Runner.run(team_of(pm=pm, sales=broken), "go")
    assert result.final_output == "sales: closed on Sundays (user.error)"


async def test_a_structured_answer_comes_as_json() -> None:
    class Offer(BaseModel):
        cents: int

    async def pm(ctx: CodeContext[Any]) -> int:
        return int((await ctx.ask("sales", "?"))["cents"]) + 1

    async def offers(ctx: CodeContext[Any]) -> Offer:
        return Offer(cents=41)

    assert (await Runner.run(team_of(pm=pm, sales=offers), "go")).final_output == 42


async def test_asking_an_unknown_agent_is_refused() -> None:
    async def pm(ctx: CodeContext[Any]) -> Any:
        return await ctx.ask("ghost", "?")

    with pytest.raises(AgentUnavailableError, match="'pm' cannot ask 'ghost'"):
        await Runner.run(team_of(pm=pm), "go")


@pytest.mark.parametrize(
    "wrong",
    [
        {"agent": "", "subject": "?"},
        {"agent": "sales", "subject": " "},
        {"agent": "sales", "subject": "x" * 501},
        {"agent": "sales", "subject": "?", "timeout_s": 0},
        {"agent": "sales", "subject": "?", "priority": "soon"},
        {"agent": "sales", "subject": "?", "payload": object()},
    ],
)
async def test_an_invalid_question_is_refused_before_anything_is_stored(wrong: Any) -> None:
    async def pm(ctx: CodeContext[Any]) -> Any:
        return await ctx.ask(**wrong)

    store = MemoryStore()
    with pytest.raises(UserError):
        await Runner.run(team_of(pm=pm, sales=sales), "go", session=Session("s", store=store))
    assert await store.find_messages() == []


async def test_asking_an_empty_list_is_refused() -> None:
    async def pm(ctx: CodeContext[Any]) -> Any:
        return await ctx.ask_all([])

    with pytest.raises(UserError, match="nothing was asked"):
        await Runner.run(team_of(pm=pm), "go")


async def test_only_code_that_can_be_run_again_may_ask() -> None:
    context = RunContextWrapper(None)
    with pytest.raises(UserError, match="works in tools and in agents that are code"):
        await context.ask("sales", "?")
    by_hand = ToolContext(None, tool_name="t", tool_call_id="c", tool_arguments="")
    with pytest.raises(UserError, match="tell works in tools"):
        await by_hand.tell("sales", "?")


async def test_questions_that_lead_to_questions_end_at_the_depth_limit() -> None:
    depths: list[str] = []

    async def deeper(ctx: CodeContext[Any]) -> Any:
        number = int(ctx.agent.name[1:])
        try:
            return await ctx.ask(f"a{number + 1}", "?")
        except BusError as exc:
            depths.append(exc.code)
            return number

    team = team_of(**{f"a{number}": deeper for number in range(8)})
    config = RunConfig(limits=Limits(depth=3))
    assert (await Runner.run(team, "go", run_config=config)).final_output == 3
    assert depths == ["bus.failed"]


async def test_a_cycle_of_questions_raises_a_deadlock_error_and_the_others_finish() -> None:
    told: list[DeadlockError] = []

    async def a(ctx: CodeContext[Any]) -> str:
        if ctx.received:
            return "a itself"
        try:
            return f"a got {await ctx.ask('b', 'one')}"
        except DeadlockError as exc:
            told.append(exc)
            return "a gave up"

    async def b(ctx: CodeContext[Any]) -> str:
        return f"b got {await ctx.ask('c', 'two')}"

    async def c(ctx: CodeContext[Any]) -> str:
        return f"c got {await ctx.ask('a', 'three')}"

    team = team_of(a=a, b=b, c=c)
    for mode in ("inline", "worker"):
        told.clear()
        store = MemoryStore()
        if mode == "inline":
            await Runner.run(team, "go", session=Session("s", store=store))
        else:
            await submitted(store, team)
        assert await said(store) == "a gave up"
        assert told, mode
        assert sorted(told[0].cycle[:-1]) == ["a", "b", "c"]
        assert told[0].cycle[0] == told[0].cycle[-1]
        rows = (await store.list()).sessions
        assert [row.outcome for row in rows] == ["done"] * 4, mode
        [b_session] = [row.id for row in rows if row.agent == "b"]
        assert await said(store, b_session) == "b got c got a itself"
        assert await open_waits(store) == []


async def test_the_same_agents_in_other_tasks_are_no_deadlock() -> None:
    store = MemoryStore()

    async def a(ctx: CodeContext[Any]) -> str:
        return (
            "leaf" if "asked_by" in str(ctx.received) or ctx.received else await ctx.ask("b", "?")
        )

    async def b(ctx: CodeContext[Any]) -> str:
        return "leaf" if ctx.received else await ctx.ask("a", "?")

    team = team_of(a=a, b=b)
    await submit(team, "go", session=Session("one", store=store))
    await submit(Team(team["b"], team["a"]), "go", session=Session("two", store=store))
    await work(store, team)
    assert (await outcome(store, "one"), await outcome(store, "two")) == (
        ("idle", "done"),
        ("idle", "done"),
    )
    assert (await said(store, "one"), await said(store, "two")) == ("leaf", "leaf")


async def test_an_answer_after_the_timeout_is_stored_as_late() -> None:
    clock = ManualClock()
    store, config = MemoryStore(clock), RunConfig(clock=clock)
    workers: list[Worker] = []

    async def pm(ctx: CodeContext[Any]) -> str:
        workers[-1].stop()  # nobody takes the session of who is asked
        try:
            return str(await ctx.ask("sales", "?", timeout_s=5))
        except QueryTimeout as exc:
            return str(exc)

    async def one_session(team: Team) -> None:
        workers.append(Worker(store, team, run_config=config, concurrency=1))
        await workers[-1].run(until_idle=True)

    team = team_of(pm=pm, sales=sales)
    await submit(team, "go", session=Session("s", store=store), run_config=config)
    await one_session(team)
    assert await outcome(store) == ("waiting", "waiting")
    clock.advance(4.9)
    assert await run_timers(store) == 0
    clock.advance(0.2)
    assert await run_timers(store) == 1
    assert await run_timers(store) == 0
    [child] = [row for row in (await store.list()).sessions if row.agent == "sales"]
    held, _ = await store.claim(child.id, owner="test", lease_s=1000)
    await one_session(team)
    assert "'sales' did not answer 'pm' within 5 s" in await said(store)
    await store.release(held)
    await work(store, team, config)
    [message] = await store.find_messages()
    assert message.state == "late"
    assert message.answer["payload"]["customer"] == 42
    assert await outcome(store) == ("idle", "done"), "a late answer wakes nobody"


async def test_time_spent_waiting_for_people_does_not_count_towards_the_timeout() -> None:
    clock = ManualClock()
    store, config = MemoryStore(clock), RunConfig(clock=clock)

    async def pm(ctx: CodeContext[Any]) -> Any:
        return await ctx.ask("sales", "?", timeout_s=5)

    async def asks_people(ctx: CodeContext[Any]) -> str:
        return (await ctx.request_approval("a discount?")).choice

    team = team_of(pm=pm, sales=asks_people)
    await submitted(store, team, config)
    for _ in range(3):
        clock.advance(100)
        await run_timers(store)
    assert await outcome(store) == ("waiting", "waiting")
    [item] = (await Inbox(store).list()).items
    await Inbox(store).answer(item.id, choice="approve", by="mira")
    await work(store, team, config)
    assert await said(store) == "approve"
    clock.advance(1000)
    await run_timers(store)
    assert await outcome(store) == ("idle", "done")


async def test_a_message_to_an_agent_starts_its_session_without_waiting() -> None:
    heard: list[dict[str, Any]] = []

    async def pm(ctx: CodeContext[Any]) -> str:
        await ctx.tell("archive", "done", {"order": 7})
        return "told"

    async def archive(ctx: CodeContext[Any]) -> str:
        heard.append(ctx.received)
        return "filed"

    team = team_of(pm=pm, archive=archive)
    assert (await Runner.run(team, "go")).final_output == "told"
    assert heard == [{"from": "pm", "reason": "done", "context": '{"order":7}'}]
    heard.clear()
    store = MemoryStore()
    await submitted(store, team)
    assert len(heard) == 1
    assert {row.agent: row.outcome for row in (await store.list()).sessions} == {
        "pm": "done",
        "archive": "done",
    }


async def test_a_message_before_a_question_is_delivered_once() -> None:
    heard: list[str] = []

    async def pm(ctx: CodeContext[Any]) -> str:
        await ctx.tell("archive", "begun")
        return str(await ctx.ask("sales", "?"))

    async def archive(ctx: CodeContext[Any]) -> str:
        heard.append("x")
        return "filed"

    await Runner.run(team_of(pm=pm, sales=sales, archive=archive), "go")
    assert heard == ["x"]


async def test_a_message_to_an_agent_outside_the_team_stays_in_its_mailbox() -> None:
    async def pm(ctx: CodeContext[Any]) -> str:
        await ctx.tell("elsewhere", "done", "x", priority="high", ttl_s=60)
        return "told"

    store = MemoryStore()
    await Runner.run(team_of(pm=pm), "go", session=Session("s", store=store))
    [message] = await store.find_messages(MessageFilter(queue="agent:elsewhere"))
    assert (message.state, message.priority) == ("open", 3)
    assert message.body["subject"] == "done"


async def test_a_new_message_withdraws_open_questions() -> None:
    async def pm(ctx: CodeContext[Any]) -> Any:
        return "never mind" if ctx.text == "forget it" else await ctx.ask("sales", "?")

    async def asks_people(ctx: CodeContext[Any]) -> str:
        return (await ctx.request_approval("a discount?")).choice

    store = MemoryStore()
    session = Session("s", store=store)
    team = team_of(pm=pm, sales=asks_people)
    result = await Runner.run(team, "go", session=session)
    assert isinstance(result.outcome, Waiting)
    assert await open_waits(store) == ["pm#s -> sales#s"]
    assert (await Runner.run(team, "forget it", session=session)).final_output == "never mind"
    assert await open_waits(store) == []
    [message] = await store.find_messages()
    assert message.state == "cancelled"
    assert await open_items(store) == [], "nobody is asked for what nobody needs"
    [child] = [row for row in (await store.list()).sessions if row.agent == "sales"]
    assert (child.status, child.outcome) == ("idle", "failed")


async def test_a_failed_run_leaves_no_open_questions() -> None:
    @function_tool
    async def asks(ctx: ToolContext[Any]) -> str:
        """Ask."""
        return str(await ctx.ask("sales", "?"))

    @function_tool(failure_error_function=None)
    async def breaks() -> str:
        """Break."""
        raise ValueError("broken")

    async def people(ctx: CodeContext[Any]) -> str:
        return (await ctx.request_approval("?")).choice

    model = ScriptedModel([[call("asks")], say("x")])
    team = Team(Agent("desk", model=model, tools=[asks]), Agent("sales", run=people))
    store = MemoryStore()
    session = Session("s", store=store)
    await Runner.run(team, "go", session=session)
    assert await open_waits(store) == ["desk#s -> sales#s"]
    team["desk"].tools = [breaks]
    team["desk"].model = ScriptedModel([call("breaks")])
    with pytest.raises(ValueError, match="broken"):
        await Runner.run(team, "again", session=session)
    assert await open_waits(store) == []
