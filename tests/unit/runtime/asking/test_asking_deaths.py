"""Questions of dead processes, and of sessions that cannot continue."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ekiden.core.errors.messages import BusError, DeadlockError, QueryFailed
from ekiden.core.runs import Done, Waiting
from ekiden.inbox import Inbox
from ekiden.runtime import CodeContext, Runner
from ekiden.sessions import Session
from ekiden.storage.memory import MemoryStore
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
from tests.unit.runtime.asking_machine.stores import Death, MortalMemory


async def test_a_question_to_an_agent_that_cannot_run_fails_with_the_reason() -> None:
    async def pm(ctx: CodeContext[Any]) -> str:
        try:
            return str(await ctx.ask("sales", "?"))
        except QueryFailed as exc:
            return f"no answer: {exc.error_code}"

    store = MemoryStore()
    session = Session("s", store=store)
    await Runner.run(team_of(pm=pm, sales=asks_people), "go", session=session)
    [item] = await open_items(store)
    await Inbox(store).answer(item.id, choice="approve", by="mira")
    async with asyncio.timeout(60):
        result = await Runner.resume(team_of(pm=pm), session)
    assert result.final_output == "no answer: agent.unknown"
    assert (await session_of(store, "sales")).outcome == "failed"


@MODES
async def test_a_deadlock_missed_because_of_a_crash_is_found_on_resume(mode: str) -> None:
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
        return f"b got {await ctx.ask('a', 'two')}"

    class Store(MortalMemory):
        async def commit(self, claim: Any, commit: Any) -> None:
            is_closing = any(put.waiter == "b#s" for put in commit.messages)
            await super().commit(claim, commit)
            if is_closing and not self.deaths:
                self._die()

    store, team = Store(), team_of(a=a, b=b)
    with pytest.raises((Death, BaseExceptionGroup)):
        await run(mode, store, team)
    await store.revive()
    if mode == "inline":
        await Runner.resume(team, Session("s", store=store))
    await work(store, team)
    assert [exc.cycle for exc in told] == [["a", "b", "a"]]
    assert await said(store) == "a gave up"
    assert await open_waits(store) == []


async def test_questions_asked_in_parallel_are_each_asked_once() -> None:
    class Slow(MemoryStore):
        async def now_us(self) -> int:
            await asyncio.sleep(0)
            return await super().now_us()

    async def pm(ctx: CodeContext[Any]) -> str:
        return " ".join(await asyncio.gather(ctx.ask("a", "?"), ctx.ask("b", "?")))

    store = Slow()
    await run("inline", store, team_of(pm=pm, a=answers, b=answers))
    assert await said(store) == "yes yes"
    assert sorted(row.agent for row in (await store.list()).sessions) == ["a", "b", "pm"]


async def test_an_item_cancelled_by_a_process_that_crashed_is_posted_again() -> None:
    async def pm(ctx: CodeContext[Any]) -> str:
        return "never mind" if ctx.text == "forget it" else await asks_people(ctx)

    store = MortalMemory()
    session, team = Session("s", store=store), team_of(pm=pm)
    await Runner.run(team, "go", session=session)
    [first] = await open_items(store)
    store.die_in(2)  # The item is withdrawn, and the message is not stored.
    with pytest.raises(Death):
        await Runner.run(team, "forget it", session=session)
    await store.revive()
    assert await open_items(store) == []
    result = await Runner.resume(team, session)
    assert isinstance(result.outcome, Waiting)
    [again] = await open_items(store)
    assert (again.subject, again.id != first.id) == (first.subject, True)
    await Inbox(store).answer(again.id, choice="reject", by="mira")
    assert (await Runner.resume(team, session)).final_output == "reject"


async def test_an_answer_resumes_a_failed_run_that_asked_after_its_retry() -> None:
    tries: list[str] = []

    async def pm(ctx: CodeContext[Any]) -> str:
        tries.append("once more")
        if len(tries) == 1:
            raise ValueError("not yet")
        return await asks_people(ctx)

    store = MortalMemory()
    session, team = Session("s", store=store), team_of(pm=pm)
    with pytest.raises(ValueError, match="not yet"):
        await Runner.run(team, "go", session=session)
    store.die_in(2)  # The question is stored, and the session is not suspended.
    with pytest.raises(Death):
        await Runner.resume(team, session)
    await store.revive()
    [item] = await open_items(store)
    await Inbox(store).answer(item.id, choice="approve", by="mira")
    await work(store, team)
    assert await said(store) == "approve"


async def test_a_question_waits_while_another_process_runs_the_asked_session() -> None:
    """a waits for b, which waits for c, which another process runs."""
    store = MemoryStore()
    begun, never = asyncio.Event(), asyncio.Event()

    async def a(ctx: CodeContext[Any]) -> str:
        return f"a got {await ctx.ask('b', '?')}"

    async def b(ctx: CodeContext[Any]) -> str:
        return f"b got {await ctx.ask('c', '?')}"

    async def c(ctx: CodeContext[Any]) -> str:
        if not begun.is_set():
            begun.set()
            await never.wait()
        return "c"

    team = team_of(a=a, b=b, c=c)
    working = asyncio.create_task(submitted(store, team))
    await begun.wait()
    working.cancel()
    await asyncio.gather(working, return_exceptions=True)
    row = await session_of(store, "c")
    assert row.status == "ready"
    claim, _ = await store.claim(row.id, owner="another process", lease_s=1000)
    resuming = asyncio.create_task(Runner.resume(team, Session("s", store=store)))
    for _ in range(100):
        await asyncio.sleep(0)
    assert not resuming.done()
    await store.release(claim)
    async with asyncio.timeout(60):
        assert (await resuming).outcome == Done("a got b got c")


@pytest.mark.parametrize("kind", ["query", "inbox"])
async def test_a_store_error_during_a_question_fails_the_run(kind: str) -> None:
    """A store that refuses the question must not leave a session that is tried for ever."""

    class Refusing(MemoryStore):
        async def commit(self, claim: Any, commit: Any) -> None:
            if commit.messages or any(each.collection == "inbox.open" for each in commit.documents):
                raise BusError("the question is refused")
            await super().commit(claim, commit)

    async def pm(ctx: CodeContext[Any]) -> Any:
        return await (ctx.ask("sales", "?") if kind == "query" else asks_people(ctx))

    store = Refusing()
    with pytest.raises(BusError, match="refused"):
        await run("inline", store, team_of(pm=pm, sales=answers))
    assert await outcome(store) == ("idle", "failed")
