"""Letting go of what is old, and of nothing else."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ekiden.core.agent import Agent, Team
from ekiden.core.errors import SessionNotFound, UserError
from ekiden.core.events import Event
from ekiden.core.questions import InboxItem
from ekiden.engine import Worker
from ekiden.engine.worker import Housekeeping
from ekiden.inbox import Inbox
from ekiden.runtime import CodeContext, Runner
from ekiden.runtime.history.deletion import Pruned, prune_sessions
from ekiden.sessions import Session
from ekiden.sessions.search import index_sessions, search_sessions
from ekiden.sessions.session import Retention
from ekiden.storage.base import MessageSettle, QueuePut, Store
from ekiden.storage.memory import MemoryStore
from ekiden.storage.postgres import PostgresStore
from ekiden.storage.sqlite import SqliteStore
from ekiden.testing import ManualClock, ScriptedModel, transfer


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def unopened(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    match request.param:
        case "postgres":
            return PostgresStore(request.getfixturevalue("postgres_url"))
        case "sqlite":
            return SqliteStore(tmp_path / "s.db")
    return MemoryStore()


@pytest.fixture
async def store(unopened: Store) -> AsyncIterator[Store]:
    async with unopened:
        yield unopened


async def talk(store: Store, *ids: str, user_id: str | None = None) -> None:
    for session_id in ids:
        agent = Agent("clerk", model=ScriptedModel(["yes"]))
        await Runner.run(agent, "hello", session=Session(session_id, store=store, user_id=user_id))


async def ids(store: Store) -> list[str]:
    return [row.id for row in (await store.list()).sessions]


async def test_keep_last_prunes_all_but_the_newest_sessions(store: Store) -> None:
    await talk(store, "s1", "s2", "s3", "s4")
    told: list[str] = []
    would = await prune_sessions(store, keep_last=2, dry_run=True, progress=told.append)
    assert (would.sessions, told) == (2, ["s1", "s2"])
    assert len(await ids(store)) == 4
    assert str(would).endswith("would be removed")
    done = await prune_sessions(store, keep_last=2)
    assert done.sessions == 2
    assert await ids(store) == ["s4", "s3"]
    assert (await prune_sessions(store, keep_last=2)).sessions == 0


async def test_the_newest_sessions_are_those_used_last() -> None:
    clock = ManualClock()
    store = MemoryStore(clock)
    for each in ("daily", "s2", "s3", "daily"):
        clock.advance(1)
        await talk(store, each)
    told: list[str] = []
    await prune_sessions(store, keep_last=2, progress=told.append)
    assert told == ["s2"]
    assert sorted(await ids(store)) == ["daily", "s3"]


async def ask(ctx: CodeContext[Any]) -> str:
    return str([await ctx.ask("clerk", f"question {number}") for number in range(3)])


async def ask_people(ctx: CodeContext[Any]) -> str:
    return (await ctx.request_approval("may I?")).choice


async def answer(ctx: CodeContext[Any]) -> str:
    return "yes"


async def tell(ctx: CodeContext[Any]) -> str:
    await ctx.tell("clerk", "by the way")
    return "yes"


def asking(clerk: Any) -> Team:
    return Team(Agent("boss", run=ask), Agent("clerk", run=clerk))


async def test_asked_sessions_are_not_counted_and_pruned_with_their_asker() -> None:
    clock = ManualClock()
    store = MemoryStore(clock)
    await talk(store, "s1", "s2")
    await Runner.run(asking(answer), "go", session=Session("boss", store=store))
    clock.advance(1)
    await talk(store, "s3")
    assert len(await ids(store)) == 7
    assert (await prune_sessions(store, keep_last=4)).sessions == 0
    clock.advance(10)
    assert (await prune_sessions(store, older_than_s=10.5, keep_last=4)).sessions == 6
    assert await ids(store) == ["s3"]


async def test_an_asked_session_that_still_runs_keeps_its_asker() -> None:
    store = MemoryStore()
    await Runner.run(asking(ask_people), "go", session=Session("boss", store=store))
    telling = Team(Agent("boss", run=tell), Agent("clerk", run=ask_people))
    await Runner.run(telling, "go", session=Session("idle", store=store))
    assert await prune_sessions(store, older_than_s=0) == Pruned()
    assert len(await ids(store)) == 4
    await prune_sessions(store, keep_last=0, status=("idle", "ready", "waiting"))
    assert await ids(store) == []


async def test_a_session_that_changed_meanwhile_is_not_pruned() -> None:
    class Racing(MemoryStore):
        async def delete(self, session_id: str) -> None:
            await super().delete(session_id)
            if session_id == "s1":
                await talk(self, "s3")

    store = Racing()
    await talk(store, "s1", "s2", "s3")
    assert (await prune_sessions(store, keep_last=0)).sessions == 2
    assert await ids(store) == ["s3"]


async def later(store: Store) -> None:
    """Come back when the store's clock went on, beyond what sessions have of the wall clock."""
    rows = (await store.list()).sessions
    last_us = max([await store.now_us(), *(row.updated_at_us for row in rows)])
    while await store.now_us() <= last_us:
        pass


async def test_sessions_with_unread_answers_are_not_pruned(store: Store) -> None:
    async def ask_one(ctx: CodeContext[Any]) -> str:
        first = await ctx.ask("clerk", "may we?")
        return f"{first}, {(await ctx.request_approval('really?')).choice}"

    team = Team(Agent("boss", run=ask_one), Agent("clerk", run=ask_people))
    session = Session("s", store=store)
    await Runner.run(team, "go", session=session)
    [asked] = [row.id for row in (await store.list()).sessions if row.id != "s"]
    await store.put_messages([QueuePut(queue="q", body=1, key="m1"), QueuePut(queue="q", body=2)])
    await store.settle_messages([MessageSettle(key="m1", state="answered")])
    inbox = Inbox(store)
    [item] = (await inbox.list()).items
    await inbox.answer(item.id, choice="approve", by="ada")
    await later(store)
    assert await prune_sessions(store, older_than_s=0) == Pruned(messages=1)
    await store.put_messages([QueuePut(queue="q", body=1, key="m2")])
    await store.settle_messages([MessageSettle(key="m2", state="answered")])
    await Runner.resume(team["clerk"], session=Session(asked, store=store))
    await later(store)
    would = await prune_sessions(store, older_than_s=0, dry_run=True)
    assert (would.messages, would.questions) == (1, 1)
    assert await prune_sessions(store, older_than_s=0) == Pruned(messages=1, questions=1)
    await Runner.resume(team, session=session)
    [item] = (await inbox.list()).items
    await inbox.answer(item.id, choice="approve", by="ada")
    result = await Runner.resume(team, session=session)
    assert result.final_output == "approve, approve"
    await later(store)
    assert (await prune_sessions(store, older_than_s=0)).sessions == 2


async def test_old_messages_and_inbox_items_are_pruned(store: Store) -> None:
    await talk(store, "s1")
    await store.put_messages([QueuePut(queue="q", body=1, key="m1"), QueuePut(queue="q", body=2)])
    await store.settle_messages([MessageSettle(key="m1", state="answered")])
    inbox = Inbox(store)
    item, open_one = [
        await inbox.post(InboxItem(kind="escalation", from_agent="clerk", subject=each))
        for each in ("may I?", "and now?")
    ]
    await inbox.answer(item.id, text="yes", by="ada")
    nothing = await prune_sessions(store, older_than_s=3600)
    assert nothing == Pruned()
    would = await prune_sessions(store, older_than_s=0, dry_run=True)
    assert would == Pruned(sessions=1, messages=1, questions=1, dry_run=True)
    assert await prune_sessions(store, older_than_s=0) == Pruned(
        sessions=1, messages=1, questions=1
    )
    assert await ids(store) == []
    assert [each.id for each in (await inbox.list()).items] == [open_one.id]
    assert await prune_sessions(store, older_than_s=0) == Pruned()


async def test_unfinished_sessions_are_pruned_only_if_their_status_is_named(store: Store) -> None:
    await talk(store, "claimed", "idle")
    await store.claim("claimed", owner="somebody", lease_s=30)
    for name, status in (("ready", "ready"), ("waiting", "waiting")):
        await store.create(_new(store, name, status))
    b = Agent("b", model=ScriptedModel(["done"]))
    a = Agent("a", model=ScriptedModel([transfer("b")]), handoffs=[b])
    run = Runner.run_streamed(a, "go", session=Session("left", store=store))
    async with aclosing(run.events()) as shown:
        async for event in shown:
            if isinstance(event, Event) and event.type == "handoff":
                break
    await prune_sessions(store, older_than_s=0)
    assert set(await ids(store)) == {"claimed", "ready", "waiting", "left"}
    await prune_sessions(store, older_than_s=0, status=("idle", "ready", "waiting"))
    assert await ids(store) == ["claimed"]


def _new(store: Store, session_id: str, status: Any) -> Any:
    return replace(Session(session_id, store=store).draft("clerk"), status=status)


async def test_keep_last_counts_the_sessions_of_one_user(store: Store) -> None:
    await talk(store, "a1", "a2", user_id="ada")
    await talk(store, "b1", "b2", user_id="bob")
    await prune_sessions(store, keep_last=1, user_id="ada")
    assert sorted(await ids(store)) == ["a2", "b1", "b2"]


async def test_a_session_claimed_or_deleted_meanwhile_is_skipped() -> None:
    class Racing(MemoryStore):
        async def list(self, *args: Any, **kwargs: Any) -> Any:
            page = await super().list(*args, **kwargs)
            await self.claim("s1", owner="somebody", lease_s=30)
            await self.delete("s2")
            return page

    store = Racing()
    await talk(store, "s1", "s2", "s3")
    pruned = await prune_sessions(store, keep_last=0)
    assert (pruned.sessions, pruned.busy) == (1, 1)
    assert "1 session in use" in str(pruned)


@pytest.mark.parametrize(
    "rule",
    [
        {},
        {"older_than_s": -1},
        {"older_than_s": float("nan")},
        {"keep_last": -1},
        {"keep_last": 1.5},
        {"keep_last": 1, "status": "idle"},
        {"keep_last": 1, "status": ("asleep",)},
        {"keep_last": 1, "user_id": ""},
        {"keep_last": 1, "user_id": 7},
        {"keep_last": 1, "status": None},
        {"keep_last": 1, "status": [["idle"]]},
        {"keep_last": True},
        {"older_than_s": "1"},
    ],
)
async def test_an_invalid_pruning_rule_is_refused(rule: dict[str, Any]) -> None:
    with pytest.raises(UserError):
        await prune_sessions(MemoryStore(), **rule)


async def test_an_age_beyond_all_times_prunes_nothing() -> None:
    store = MemoryStore()
    await talk(store, "s1")
    assert await prune_sessions(store, older_than_s=1e300) == Pruned()


async def test_a_worker_prunes_once_an_hour_and_keeps_the_search_index() -> None:
    clock = ManualClock()
    store = MemoryStore(clock)
    await talk(store, "s1", "s2")
    keeping = Housekeeping(store, Retention(count=1))
    await keeping.once()
    assert await ids(store) == ["s2"]
    await talk(store, "s3")
    await keeping.once()
    assert len(await ids(store)) == 2
    assert not await store.find_entries("sessions")
    await search_sessions(store, "hello")
    clock.advance(3601)
    await talk(store, "s4")
    await keeping.once()
    assert await ids(store) == ["s4"]
    assert await index_sessions(store) == 0
    assert {each.body["session"] for each in await store.find_entries("sessions")} == {"s4"}


async def test_a_worker_with_retention_rules_prunes_sessions() -> None:
    store = MemoryStore()
    await talk(store, "s1", "s2")
    worker = Worker(store, Agent("clerk"), retention=Retention(count=1))
    await worker.run(until_idle=True)
    await Housekeeping(store, Retention(count=1)).once()
    assert await ids(store) == ["s2"]


async def test_pruning_is_retried_after_a_store_failure(caplog: pytest.LogCaptureFixture) -> None:
    store = MemoryStore()
    await talk(store, "s1", "s2")
    await store.close()
    await Housekeeping(store, Retention(count=1)).once()
    assert "trying again" in caplog.text
    await store.open()
    await Housekeeping(store, Retention(count=1)).once()
    with pytest.raises(SessionNotFound):
        await store.get("s1")
