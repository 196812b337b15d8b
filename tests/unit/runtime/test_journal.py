"""The journal of code: an answer belongs to the question that was asked."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from ekiden import Agent, Ask, Inbox, Runner, Session, Team, Worker, function_tool, submit
from ekiden.core.context import ToolContext
from ekiden.core.errors import CallChanged, CodeNotDeterministic
from ekiden.core.runs import Waiting
from ekiden.runtime import CodeContext
from ekiden.runtime.state.cursor import Cursor
from ekiden.storage.base import Commit as StoreCommit, SessionPatch, Store
from ekiden.storage.memory import MemoryStore
from ekiden.storage.sqlite import SqliteStore
from ekiden.testing import ScriptedModel, call, say, transfer

Code = Callable[[CodeContext[Any]], Any]


def coded(code: Code, *others: Agent[Any]) -> Team:
    return Team(Agent("till", run=code), *others)


async def open_items(store: Store) -> list[Any]:
    return list((await Inbox(store).list()).items)


async def answer_all(store: Store, choice: str = "approve") -> list[str]:
    subjects = []
    for item in await open_items(store):
        await Inbox(store).answer(item.id, choice=choice, by="anna")
        subjects.append(item.subject)
    return subjects


async def test_an_approval_of_another_price_is_not_used(tmp_path: Path) -> None:
    price, paid = 100, []

    @function_tool
    def pay(cents: int) -> str:
        paid.append(cents)
        return "paid"

    async def code(ctx: CodeContext[Any]) -> Any:
        answer = await ctx.request_approval("pay?", context={"cents": price})
        return await ctx.call("pay", cents=price) if answer.choice == "approve" else "no"

    def deployed() -> Agent[Any]:
        return Agent("till", run=code, tools=[pay])

    store = SqliteStore(tmp_path / "e.db")
    session = Session("s", store=store)
    await Runner.run(deployed(), "go", session=session)
    price = 900
    [first] = await open_items(store)
    await Inbox(store).answer(first.id, choice="approve", by="anna")
    await store.close()

    store = SqliteStore(tmp_path / "e.db")
    session = Session("s", store=store)
    assert isinstance((await Runner.resume(deployed(), session)).outcome, Waiting)
    assert paid == []
    [second] = await open_items(store)
    assert second.context == {"cents": 900}
    await Inbox(store).answer(second.id, choice="approve", by="anna")
    assert (await Runner.resume(deployed(), session)).final_output == "paid"
    assert paid == [900]
    kept = await store.steps("s", prefix="1.1.a.q")
    assert [kept[key]["answer"]["by"] for key in ("1.1.a.q1", "1.1.a.q1r1")] == ["anna", "anna"]
    await store.close()


@pytest.mark.parametrize(
    "changed",
    [
        {"subject": "pay a lot?"},
        {"options": ["approve", "reject", "later"]},
        {"body": "now"},
        {"role": "manager"},
        {"default": "approve"},
    ],
)
async def test_every_part_that_people_see_belongs_to_the_approval(changed: dict[str, Any]) -> None:
    asked: dict[str, Any] = {"subject": "pay?"}

    async def code(ctx: CodeContext[Any]) -> Any:
        return (await ctx.request_approval(**asked)).choice

    store = MemoryStore()
    session = Session("s", store=store)
    await Runner.run(coded(code), "go", session=session)
    asked |= changed
    await answer_all(store, "reject")
    assert isinstance((await Runner.resume(coded(code), session)).outcome, Waiting)
    await answer_all(store)
    assert (await Runner.resume(coded(code), session)).final_output == "approve"


async def test_another_deadline_or_priority_is_not_another_question() -> None:
    asked: dict[str, Any] = {"deadline_s": 3600.0}

    async def code(ctx: CodeContext[Any]) -> Any:
        return (await ctx.request_approval("pay?", **asked)).choice

    store = MemoryStore()
    session = Session("s", store=store)
    await Runner.run(coded(code), "go", session=session)
    asked |= {"deadline_s": 7200.0, "priority": "high"}
    await answer_all(store)
    assert (await Runner.resume(coded(code), session)).final_output == "approve"


async def test_the_answer_of_an_agent_to_another_question_is_not_used() -> None:
    questions = iter(["rate 1", "rate 2", "rate 2"])
    answered = []

    async def rates(ctx: CodeContext[Any]) -> Any:
        answered.append(ctx.text)
        return f"answer {len(answered)}"

    async def code(ctx: CodeContext[Any]) -> Any:
        return await ctx.ask("rates", next(questions), {"o": 1})

    result = await Runner.run(coded(code, Agent("rates", run=rates)), "go")
    assert result.final_output == "answer 2"
    assert ["rate 1" in answered[0], "rate 2" in answered[1]] == [True, True]


async def test_an_open_question_is_withdrawn_when_the_code_asks_something_else() -> None:
    price = 100

    async def code(ctx: CodeContext[Any]) -> Any:
        one, two = await asyncio.gather(
            ctx.request_approval("first?"), ctx.request_approval(f"pay {price}?")
        )
        return [one.choice, two.choice]

    store = MemoryStore()
    session = Session("s", store=store)
    await Runner.run(coded(code), "go", session=session)
    first, second = sorted(await open_items(store), key=lambda item: item.subject)
    price = 900
    await Inbox(store).answer(first.id, choice="approve", by="anna")
    await Runner.resume(coded(code), session)
    withdrawn = await Inbox(store).get(second.id)
    assert (withdrawn.status, withdrawn.reason) == ("cancelled", "the code now asks something else")
    assert await answer_all(store) == ["pay 900?"]
    result = await Runner.resume(coded(code), session)
    assert result.final_output == ["approve", "approve"]
    events = [each.details or {} for each in await session.events() if each.type == "inbox"]
    assert [each["item"] for each in events if each.get("reason")] == [second.id]


async def test_an_open_question_to_an_agent_is_cancelled_when_the_code_asks_another() -> None:
    store, subject = MemoryStore(), "slow 1"

    async def slow(ctx: CodeContext[Any]) -> Any:
        return (await ctx.request_approval(ctx.text)).choice

    async def code(ctx: CodeContext[Any]) -> Any:
        return await asyncio.gather(ctx.ask("quick", "?"), ctx.ask("slow", subject, timeout_s=1e6))

    async def quick(ctx: CodeContext[Any]) -> Any:
        nonlocal subject
        answer = (await ctx.request_approval("quick")).choice
        subject = "slow 2"
        return answer

    team = coded(code, Agent("quick", run=quick), Agent("slow", run=slow))
    session = Session("s", store=store)
    await Runner.run(team, "go", session=session)
    [item] = [each for each in await open_items(store) if each.subject == "quick"]
    await Inbox(store).answer(item.id, choice="approve", by="anna")
    await Runner.resume(team, session)
    [item] = await open_items(store)
    assert "slow 2" in item.subject
    await Inbox(store).answer(item.id, choice="reject", by="anna")
    assert (await Runner.wait(team, session)).final_output == ["approve", "reject"]


async def test_any_answer_of_a_group_counts_only_for_its_own_question() -> None:
    names = iter(["a", "b", "b"])
    asked: list[str] = []

    async def told(ctx: CodeContext[Any]) -> Any:
        asked.append(ctx.agent.name)
        return ctx.agent.name

    async def code(ctx: CodeContext[Any]) -> Any:
        return await ctx.ask_any([Ask(agent=next(names), subject="?")])

    team = coded(code, Agent("a", run=told), Agent("b", run=told))
    assert (await Runner.run(team, "go")).final_output == ("b", "b")
    assert asked == ["a", "b"]


async def test_a_question_that_changes_each_time_ends_the_run_and_can_be_repaired() -> None:
    ticks = iter(range(100))

    async def code(ctx: CodeContext[Any]) -> Any:
        return await ctx.ask("clock", f"tick {next(ticks)}")

    async def repaired(ctx: CodeContext[Any]) -> Any:
        return await ctx.ask("clock", f"now {ctx.now()} {ctx.uuid()} {ctx.random()}")

    async def clock(ctx: CodeContext[Any]) -> Any:
        return "tock"

    session = Session("s", store=MemoryStore())
    team = coded(code, Agent("clock", run=clock))
    with pytest.raises(CodeNotDeterministic, match=r"use ctx\.now\(\)"):
        await Runner.run(team, "go", session=session)
    assert next(ticks) == 4
    team = coded(repaired, Agent("clock", run=clock))
    assert (await Runner.resume(team, session)).final_output == "tock"


async def test_recorded_values_stay_the_same_when_the_code_runs_again() -> None:
    seen: list[Any] = []

    @function_tool
    async def note(ctx: ToolContext[Any], text: str) -> str:
        return text

    async def code(ctx: CodeContext[Any]) -> Any:
        values = (ctx.now(), ctx.random(), ctx.uuid())
        seen.append(values)
        await ctx.call("note", text=str(values))
        await ctx.request_approval(f"{values}?")
        return "done"

    agent = Agent("till", run=code, tools=[note])
    store = MemoryStore()
    session = Session("s", store=store)
    await Runner.run(agent, "go", session=session)
    await answer_all(store)
    assert (await Runner.resume(agent, session)).final_output == "done"
    assert seen[0] == seen[1]
    now, number, uuid = seen[0]
    assert now.tzinfo is UTC
    assert 0 <= number < 1
    assert isinstance(uuid, UUID)
    assert uuid.version == 4


async def test_recorded_values_are_stored_before_an_effect_that_depends_on_them() -> None:
    effects: list[tuple[str, str]] = []

    @function_tool
    async def pay(ctx: ToolContext[Any], reference: str) -> str:
        effects.append((ctx.idempotency_key, reference))
        if len(effects) == 1:
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
            await asyncio.sleep(0)
        return "paid"

    async def code(ctx: CodeContext[Any]) -> Any:
        return await ctx.call("pay", reference=str(ctx.uuid()))

    agent = Agent("till", run=code, tools=[pay])
    session = Session("s", store=MemoryStore())
    running = asyncio.create_task(Runner.run(agent, "go", session=session))
    with pytest.raises(asyncio.CancelledError):
        await running
    assert (await Runner.resume(agent, session)).final_output == "paid"
    assert effects[0] == effects[1]


async def test_a_value_at_the_position_of_another_value_is_not_used() -> None:
    first: list[Any] = []

    async def before(ctx: CodeContext[Any]) -> Any:
        first.append(ctx.random())
        return (await ctx.request_approval("?")).choice

    async def after(ctx: CodeContext[Any]) -> Any:
        identifier = ctx.uuid()
        await ctx.request_approval("?")
        return str(identifier)

    store = MemoryStore()
    session = Session("s", store=store)
    await Runner.run(coded(before), "go", session=session)
    await answer_all(store)
    assert UUID((await Runner.resume(coded(after), session)).final_output).version == 4


async def test_tools_get_recorded_values_too() -> None:
    seen: list[Any] = []

    @function_tool
    async def ask_later(ctx: ToolContext[Any]) -> str:
        seen.append(ctx.uuid())
        return (await ctx.request_approval(f"{seen[-1]}?")).choice

    store = MemoryStore()
    session = Session("s", store=store)
    agent = Agent("till", model=ScriptedModel([call("ask_later"), say("done")]), tools=[ask_later])
    await Runner.run(agent, "go", session=session)
    await answer_all(store)
    assert (await Runner.resume(agent, session)).final_output == "done"
    assert seen[0] == seen[1]


async def test_a_sleeping_session_needs_no_process() -> None:
    starts = 0

    async def code(ctx: CodeContext[Any]) -> Any:
        nonlocal starts
        starts += 1
        await ctx.sleep(0.001)
        return starts

    store, team = MemoryStore(), coded(code)
    session = Session("s", store=store)
    await submit(team, "go", session=session)
    while (await session.row()).outcome != "done":
        await Worker(store, team).run(until_idle=True)
    assert starts == 2


async def test_a_changed_notice_is_sent_as_another_one() -> None:
    got: list[str] = []
    text = "first"

    async def hears(ctx: CodeContext[Any]) -> Any:
        got.append(ctx.text)
        return "ok"

    async def code(ctx: CodeContext[Any]) -> Any:
        await ctx.tell("log", text)
        return (await ctx.request_approval("?")).choice

    store = MemoryStore()
    session = Session("s", store=store)
    team = coded(code, Agent("log", run=hears))
    await Runner.run(team, "go", session=session)
    text = "second"
    await answer_all(store)
    await Runner.resume(team, session)
    events = [each.details or {} for each in await session.events()]
    told = [each["tells"] for each in events if "tells" in each]
    assert [(each["subject"], each.get("changed")) for each in told] == [
        ("first", None),
        ("second", True),
    ]


async def test_stored_answers_without_a_digest_are_compared_with_what_was_asked() -> None:
    """Data of earlier versions has no digests."""
    price = 100

    async def code(ctx: CodeContext[Any]) -> Any:
        rate = await ctx.ask("rates", "rate", {"o": 1})
        return [rate, (await ctx.request_approval(f"pay {price}?")).choice]

    async def rates(ctx: CodeContext[Any]) -> Any:
        return 7

    store, team = MemoryStore(), coded(code, Agent("rates", run=rates))
    session = Session("s", store=store)
    await Runner.run(team, "go", session=session)
    await forget_digests(store)
    await answer_all(store)
    assert (await Runner.resume(team, session)).final_output == [7, "approve"]


async def forget_digests(store: MemoryStore) -> None:
    for step in store._sessions["s"].steps.values():  # As an earlier version stored it.
        if isinstance(step, dict):
            step.pop("of", None)
    claim, row = await store.claim("s", owner="test", lease_s=10)
    cursor = Cursor.from_json(row.cursor)
    for question in cursor.questions.open.values():
        question.of = None
    patch = SessionPatch(cursor=cursor.to_json())
    await store.commit(claim, StoreCommit(patch=patch, events=(), release=True))


async def test_a_step_runs_once_with_a_key_of_its_own() -> None:
    keys: list[str] = []

    async def rate(currency: str, *, key: str) -> Any:
        keys.append(key.rpartition(":")[2])
        return {"currency": currency, "rate": len(keys)}

    async def code(ctx: CodeContext[Any]) -> Any:
        found = await ctx.step("rate", rate, "EUR")
        await ctx.request_approval(f"{found}?")
        return found

    store = MemoryStore()
    session = Session("s", store=store)
    await Runner.run(coded(code), "go", session=session)
    await answer_all(store)
    result = await Runner.resume(coded(code), session)
    assert result.final_output == {"currency": "EUR", "rate": 1}
    assert keys == ["1.1.a.s1"]


@pytest.mark.parametrize(
    ("choice", "output", "later"),
    [
        ("repeat", "paid 1", [("1.1.a.s1", 1)]),
        ("abandon", "paid 2", [("1.1.a.s1r1", 2)]),
        ("enter a result", "it was paid", []),
    ],
)
async def test_a_person_decides_about_an_unfinished_step_that_changed(
    choice: str, output: str, later: list[tuple[str, int]]
) -> None:
    effects: list[tuple[str, int]] = []
    cents, started = 1, asyncio.Event()

    async def pay(amount: int, key: str) -> str:
        effects.append((key.rpartition(":")[2], amount))
        if len(effects) == 1:
            started.set()
            await asyncio.Event().wait()
        return f"paid {amount}"

    async def code(ctx: CodeContext[Any]) -> Any:
        return await ctx.step("pay", pay, cents)

    store = MemoryStore()
    session = Session("s", store=store)
    running = asyncio.create_task(Runner.run(coded(code), "go", session=session))
    await started.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    cents = 2
    with pytest.raises(CallChanged):
        await Runner.resume(coded(code), session)
    [item] = await open_items(store)
    await Inbox(store).answer(item.id, choice=choice, text="it was paid", by="anna")
    assert (await Runner.resume(coded(code), session)).final_output == output
    assert effects == [("1.1.a.s1", 1), *later]


def undo() -> None:
    """Undo nothing."""


async def test_one_key_of_a_compensation_is_one_effect() -> None:
    async def code(ctx: CodeContext[Any]) -> Any:
        await ctx.on_rollback(undo, key="pay", arguments=1)
        await ctx.on_rollback(undo, key="pay", arguments=1)
        with pytest.raises(CodeNotDeterministic):
            await ctx.on_rollback(undo, key="pay", arguments=2)
        return "done"

    target = Agent("target", run=code)
    source = Agent("source", model=ScriptedModel([transfer("target")]), handoffs=[target])
    assert (await Runner.run(source, "go")).final_output == "done"
