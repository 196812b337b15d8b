"""A session that is deleted leaves nobody waiting, and nothing to be answered."""

from __future__ import annotations

from typing import Any

import pytest

from ekiden.core.errors import SessionBusy, SessionNotFound
from ekiden.core.message_errors import QueryFailed
from ekiden.inbox import Inbox
from ekiden.runtime import CodeContext, Runner
from ekiden.runtime.deletion import delete_session
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


async def test_what_it_asked_is_withdrawn() -> None:
    store = MemoryStore()
    _, asked = await waiting(store)
    [item] = await open_items(store)
    await delete_session(store, "s")
    with pytest.raises(SessionNotFound):
        await store.get("s")
    assert await open_waits(store) == []
    assert (await Inbox(store).get(item.id)).status == "cancelled"
    assert list(await store.list_documents(TIMERS)) == []
    row = await store.get(asked)
    assert (row.status, row.outcome) == ("idle", "failed"), "nobody needs its answer"


async def test_what_it_asked_people_is_withdrawn_and_who_waits_for_it_is_told() -> None:
    store = MemoryStore()
    session, asked = await waiting(store)
    [item] = await open_items(store)
    await delete_session(store, asked)
    closed = await Inbox(store).get(item.id)
    assert (closed.status, closed.reason) == ("cancelled", "the session was deleted")
    with pytest.raises(QueryFailed, match="the session that was to answer was deleted"):
        await Runner.wait(TEAM, session, timeout_s=20)
    assert list(await store.list_documents(TIMERS)) == []


async def test_one_that_waits_for_nobody_is_just_deleted() -> None:
    store = MemoryStore()

    async def answer(ctx: CodeContext[Any]) -> str:
        return "done"

    await Runner.run(team_of(desk=answer), "go", session=Session("s", store=store))
    await delete_session(store, "s")
    with pytest.raises(SessionNotFound):
        await delete_session(store, "s")


async def test_one_that_somebody_runs_stays_as_it_is() -> None:
    store = MemoryStore()
    await waiting(store)
    await store.claim("s", owner="somebody", lease_s=60)
    with pytest.raises(SessionBusy):
        await delete_session(store, "s")
    assert await open_waits(store) == ["boss#s -> clerk#s"]


async def test_one_that_cannot_be_freed_is_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
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
