"""A deleted session leaves no agent waiting, and no open question."""

from __future__ import annotations

from typing import Any

import pytest

from ekiden.core.errors import SessionBusy, SessionNotFound
from ekiden.core.errors.messages import QueryFailed
from ekiden.inbox import Inbox
from ekiden.runtime import CodeContext, Limits, RunConfig, Runner
from ekiden.runtime.history.deletion import delete_session
from ekiden.runtime.history.fork import fork_session, rewind_session
from ekiden.runtime.state.cursor import Cursor
from ekiden.sessions import Session
from ekiden.storage.memory import MemoryStore
from ekiden.storage.timers import TIMERS
from tests.unit.runtime.asking.desks import open_items, open_waits, team_of


async def ask_person(ctx: CodeContext[Any]) -> str:
    return (await ctx.request_approval("may I?", deadline_s=60)).choice


async def ask_agent(ctx: CodeContext[Any]) -> str:
    return str(await ctx.ask("clerk", "may we?"))


TEAM = team_of(boss=ask_agent, clerk=ask_person)


async def waiting(store: MemoryStore) -> tuple[Session, str]:
    """A session whose agent asked another, which asked a person; and that other's session."""
    session = Session("s", store=store)
    await Runner.run(TEAM, "go", session=session)
    [asked] = [row.id for row in (await store.list()).sessions if row.id != "s"]
    return session, asked


async def test_deleting_a_session_withdraws_its_questions() -> None:
    store = MemoryStore()
    _, asked = await waiting(store)
    [item] = await open_items(store)
    await delete_session(store, "s")
    with pytest.raises(SessionNotFound):
        await store.get("s")
    assert await open_waits(store) == []
    assert (await Inbox(store).get(item.id)).status == "cancelled"
    assert list(await store.list_documents(TIMERS)) == []
    with pytest.raises(SessionNotFound):
        await store.get(asked)


async def test_deleting_an_asked_session_cancels_its_items_and_fails_the_question() -> None:
    store = MemoryStore()
    session, asked = await waiting(store)
    [item] = await open_items(store)
    await delete_session(store, asked)
    closed = await Inbox(store).get(item.id)
    assert (closed.status, closed.reason) == ("cancelled", "the session was deleted")
    with pytest.raises(QueryFailed, match="the session that was to answer was deleted"):
        await Runner.wait(TEAM, session, timeout_s=60)
    assert list(await store.list_documents(TIMERS)) == []


async def test_a_session_without_questions_is_deleted() -> None:
    store = MemoryStore()

    async def answer(ctx: CodeContext[Any]) -> str:
        return "done"

    await Runner.run(team_of(desk=answer), "go", session=Session("s", store=store))
    await delete_session(store, "s")
    with pytest.raises(SessionNotFound):
        await delete_session(store, "s")


async def test_deleting_a_running_session_is_refused() -> None:
    store = MemoryStore()
    await waiting(store)
    await store.claim("s", owner="somebody", lease_s=60)
    with pytest.raises(SessionBusy):
        await delete_session(store, "s")
    assert await open_waits(store) == ["boss#s -> clerk#s"]


async def test_a_failed_delete_can_be_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore()
    await waiting(store)

    async def fail(*_: Any) -> None:
        raise OSError("no disk")

    with monkeypatch.context() as patch:
        patch.setattr(store, "commit", fail)
        with pytest.raises(OSError, match="no disk"):
            await delete_session(store, "s")
    await delete_session(store, "s")
    assert await open_waits(store) == []


async def answer(ctx: CodeContext[Any]) -> str:
    return "done"


ANSWERING = team_of(boss=ask_agent, clerk=answer)


async def test_deleting_a_session_deletes_the_sessions_that_answered_its_questions() -> None:
    store = MemoryStore()
    for each in ("s", "other"):
        await Runner.run(ANSWERING, "go", session=Session(each, store=store))
    [asked] = [row.id for row in (await store.list()).sessions if row.meta.get("asked_in") == "s"]
    branch = await fork_session(store, "s", at_seq=(await store.get("s")).seq)
    await delete_session(store, branch.session_id)
    assert (await store.get(asked)).outcome == "done", "a copy of the question asked nobody"
    await delete_session(store, "s")
    left = {row.id: row.meta.get("asked_in") for row in (await store.list()).sessions}
    assert sorted(left.values(), key=str) == [None, "other"]


async def test_deleting_a_session_keeps_the_sessions_that_received_its_messages() -> None:
    async def tell(ctx: CodeContext[Any]) -> str:
        await ctx.tell("clerk", "by the way")
        return "done"

    team = team_of(boss=tell, clerk=ask_person)
    store = MemoryStore()
    await Runner.run(team, "go", session=Session("s", store=store))
    [told] = [row for row in (await store.list()).sessions if row.id != "s"]
    assert told.status != "idle"
    await delete_session(store, "s")
    assert (await store.get(told.id)).status == told.status, "it works at something of its own"


async def test_a_conditional_delete_is_skipped_if_the_session_changed() -> None:
    store = MemoryStore()
    await Runner.run(ANSWERING, "go", session=Session("s", store=store))
    before = await store.get("s")
    assert not await delete_session(store, "s", only_if=lambda row: row.seq > before.seq)
    now = await store.get("s")
    assert (now.owner, now.updated_at_us) == (None, before.updated_at_us)
    assert await delete_session(store, "s", only_if=lambda row: row.seq == before.seq)


async def shared_budgets_of(store: MemoryStore, session_id: str) -> list[str]:
    cursor = Cursor.from_json((await store.get(session_id)).cursor)
    assert cursor.budget.levels
    return [f"purse.{cursor.budget.shared_budget}.{level}" for level in cursor.budget.levels]


@pytest.mark.parametrize("end", ["delete", "message", "rewind"])
async def test_the_shared_budget_is_removed_when_the_run_ends(end: str) -> None:
    store = MemoryStore()
    config = RunConfig(limits=Limits(tokens=10_000))
    session = Session("s", store=store)
    await Runner.run(TEAM, "go", session=session, run_config=config)
    [shared_budget] = await shared_budgets_of(store, "s")
    assert await store.list_documents(shared_budget)
    if end == "delete":
        await delete_session(store, "s")
    elif end == "rewind":
        await rewind_session(store, "s", to_seq=1)
    else:
        await Runner.run(TEAM, "never mind", session=session)
    assert await store.list_documents(shared_budget) == []
