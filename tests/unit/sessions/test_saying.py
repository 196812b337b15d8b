"""A session as a list of items: adding to it, taking back, clearing."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from ekiden.core.agent import Agent
from ekiden.core.conversation.model import text_of
from ekiden.core.errors import SessionBusy, SessionNotFound, UserError
from ekiden.runtime import Runner
from ekiden.runtime.history.fork import fork_session, messages_to, rewind_session
from ekiden.sessions import Session
from ekiden.storage.base import Store
from ekiden.storage.memory import MemoryStore
from ekiden.storage.sqlite import SqliteStore
from ekiden.testing import ScriptedModel, transfer


@pytest.fixture(params=["memory", "sqlite"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    made: Store = MemoryStore() if request.param == "memory" else SqliteStore(tmp_path / "s.db")
    async with made:
        yield made


def texts(items: list[Any]) -> list[str]:
    return [text_of(item) for item in items]


async def test_added_items_are_visible_to_the_next_run(store: Store) -> None:
    session = Session("s", store=store)
    await session.add_items(["earlier", {"role": "assistant", "content": "yes?"}])
    model = ScriptedModel(["answer"])
    await Runner.run(Agent("a", model=model), "now", session=session)
    assert texts(list(model.calls[0].input)) == ["earlier", "yes?", "now"]
    assert (await session.row()).agent == "a"
    await session.add_items(["meanwhile"])
    assert texts(await session.get_items(limit=2)) == ["answer", "meanwhile"]
    assert [text_of(each.items[0]) for each in messages_to(await session.events())] == ["now"]


async def test_pop_item_removes_the_last_item_each_time(store: Store) -> None:
    session = Session("s", store=store)
    await session.add_items(["one", "two"])
    await session.add_items(["three"])
    taken = [await session.pop_item() for _ in range(4)]
    assert [None if item is None else text_of(item) for item in taken] == [
        "three",
        "two",
        "one",
        None,
    ]
    assert await session.get_items() == []
    await session.add_items(["four"])
    assert texts(await session.get_items()) == ["four"]
    await rewind_session(store, "s", to_seq=2)
    assert texts(await session.get_items()) == ["one", "two", "three"]
    branch = await fork_session(store, "s", at_seq=3)
    assert texts(await branch.get_items()) == ["one", "two"]


async def test_items_cannot_be_added_during_a_run(store: Store) -> None:
    session = Session("s", store=store)
    b = Agent("b", model=ScriptedModel(["done"]))
    a = Agent("a", model=ScriptedModel([transfer("b")]), handoffs=[b])
    await Runner.run(a, "go", session=session, max_turns=1)
    with pytest.raises(UserError, match="unfinished"):
        await session.add_items(["x"])
    with pytest.raises(UserError, match="unfinished"):
        await session.pop_item()
    await Runner.resume(a, session)
    await session.add_items(["x"])
    await store.claim("s", owner="somebody", lease_s=30)
    with pytest.raises(SessionBusy):
        await session.add_items(["y"])


async def test_a_cleared_session_starts_empty(store: Store) -> None:
    session = Session("s", store=store)
    await session.clear_session()
    await session.add_items("one")
    await session.clear_session()
    assert await session.get_items() == []
    with pytest.raises(SessionNotFound):
        await session.row()
    await session.add_items([])
    with pytest.raises(SessionNotFound):
        await session.row()
    assert await session.pop_item() is None
    with pytest.raises(UserError, match="JSON object"):
        await session.add_items([3])


async def test_session_info_describes_the_session(store: Store) -> None:
    session = Session("s", store=store, title="tea", user_id="u")
    b = Agent("b", model=ScriptedModel(["done"]))
    a = Agent("a", model=ScriptedModel([transfer("b")]), handoffs=[b])
    await Runner.run(a, "go", session=session)
    info = await session.info()
    assert (info.title, info.user_id, info.agent) == ("tea", "u", "b")
    assert info.metadata == {
        "agent_chain": ["user", "a", "b"],
        "handoff_count": 1,
        "total_tokens": info.total_tokens,
    }
    await rewind_session(store, "s", to_seq=2)
    assert (await session.info()).metadata["agent_chain"] == ["user", "a"]
