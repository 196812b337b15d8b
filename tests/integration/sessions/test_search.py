"""Finding sessions: by title and by words, only one's own, and nothing that is gone."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from ekiden.core.agent import Agent
from ekiden.core.errors import SessionBusy, UserError
from ekiden.core.events import Event
from ekiden.runtime import Runner
from ekiden.runtime.history.deletion import delete_session
from ekiden.runtime.history.fork import rewind_session
from ekiden.sessions import Session
from ekiden.sessions.search import (
    SessionHit,
    delete_with_texts,
    excerpt,
    index_sessions,
    is_indexed,
    search_sessions,
    space_of,
)
from ekiden.storage.base import Commit, SessionPatch, Store
from ekiden.storage.memory import MemoryStore
from ekiden.storage.postgres import PostgresStore
from ekiden.storage.sqlite import SqliteStore
from ekiden.testing import ManualClock, ScriptedModel


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


async def talk(store: Store, session_id: str, *texts: str, **facts: Any) -> None:
    for text in texts:
        model = ScriptedModel([f"about {text}: certainly"])
        session = Session(session_id, store=store, **facts)
        await Runner.run(Agent("clerk", model=model), text, session=session)


def places(hits: list[SessionHit]) -> set[tuple[str, str, int]]:
    return {(hit.session_id, hit.where, hit.seq) for hit in hits}


async def test_titles_and_messages_are_found_in_any_language(store: Store) -> None:
    await talk(store, "s1", "My refund is late", title="Money back")
    await talk(store, "s2", "我要退款了", "お茶をください 🍵")
    assert not await is_indexed(store)
    found = await search_sessions(store, "REFUND")
    assert places(found) == {("s1", "message", 1), ("s1", "message", 3)}
    assert {hit.agent for hit in found} == {None, "clerk"}
    [title] = await search_sessions(store, "money")
    assert (title.where, title.title, title.excerpt) == ("title", "Money back", "Money back")
    assert {hit.session_id for hit in await search_sessions(store, "退款")} == {"s2"}
    assert {hit.session_id for hit in await search_sessions(store, "お茶")} == {"s2"}
    assert await search_sessions(store, "nothing-of-the-kind") == []
    assert await search_sessions(store, "") == []
    assert len(await search_sessions(store, "refund", limit=1)) == 1
    await talk(store, "s3", "another refund")
    assert "s3" in {hit.session_id for hit in await search_sessions(store, "refund")}
    assert await index_sessions(store) == 0


async def test_a_search_never_finds_another_users_messages(store: Store) -> None:
    await talk(store, "hers", "the secret recipe", user_id="ada")
    await talk(store, "his", "the secret garden", user_id="bob")
    await talk(store, "nobodys", "the secret door")
    for user, own in (("ada", "hers"), ("bob", "his")):
        hits = await search_sessions(store, "secret", user_id=user)
        assert {hit.session_id for hit in hits} == {own}
    assert await search_sessions(store, "secret", user_id="a") == []
    assert await search_sessions(store, "secret", user_id="ada/") == []
    assert len({hit.session_id for hit in await search_sessions(store, "secret")}) == 3
    with pytest.raises(UserError, match="user"):
        await search_sessions(store, "secret", user_id="")
    with pytest.raises(UserError, match="limit"):
        await search_sessions(store, "secret", limit=0)


async def test_a_reused_session_id_does_not_expose_the_previous_users_text(store: Store) -> None:
    await talk(store, "s", "the old secret", user_id="ada")
    assert await search_sessions(store, "secret", user_id="ada")
    await store.delete("s")  # Behind the index's back.
    await talk(store, "s", "the new secret", user_id="bob")
    assert await search_sessions(store, "secret", user_id="ada") == []
    texts = [hit.excerpt for hit in await search_sessions(store, "secret", user_id="bob")]
    assert texts
    assert not any("old" in text for text in texts)


async def test_deleting_a_session_removes_its_text_from_the_index(store: Store) -> None:
    await talk(store, "s", "the secret recipe", user_id="ada", title="secret")
    await talk(store, "s2", "the secret recipe", user_id="ada")
    await search_sessions(store, "secret")
    await delete_session(store, "s")
    await Session("s2", store=store).delete()
    for space in (space_of(None), space_of("ada")):
        assert not await store.find_entries(space)
        assert not await store.search_text(space, "secret")


async def test_a_session_whose_deletion_was_refused_is_still_found(store: Store) -> None:
    await talk(store, "s", "the secret recipe", user_id="ada", title="secret")
    found = places(await search_sessions(store, "secret"))
    await store.claim("s", owner="somebody", lease_s=30)
    with pytest.raises(SessionBusy):
        await Session("s", store=store).delete()
    with pytest.raises(SessionBusy):
        await delete_session(store, "s")
    assert places(await search_sessions(store, "secret")) == found
    assert places(await search_sessions(store, "secret", user_id="ada")) == found


async def test_rewound_messages_are_not_found(store: Store) -> None:
    await talk(store, "s", "tea please", "no, coffee")
    assert await search_sessions(store, "coffee")
    await rewind_session(store, "s", to_seq=4)
    assert await search_sessions(store, "coffee") == []
    assert await search_sessions(store, "tea")


async def test_outdated_hits_do_not_displace_valid_hits(store: Store) -> None:
    await talk(store, "s", "hello")
    seq = (await store.get("s")).seq
    await talk(store, "s", *["apple"] * 6)
    await rewind_session(store, "s", to_seq=seq)
    await talk(store, "s", "an apple of the kind that one likes")
    [hit] = await search_sessions(store, "apple", limit=1)
    assert "likes" in hit.excerpt
    assert len(await search_sessions(store, "apple", limit=10**20)) == 2


@pytest.mark.parametrize("user", ["a/b", "🍵", "阿福"])
async def test_search_works_for_any_user_id(user: str) -> None:
    store = MemoryStore()
    await talk(store, "fine", "tea please", user_id="ada")
    await talk(store, "odd", "tea please", user_id=user)
    assert {hit.session_id for hit in await search_sessions(store, "tea")} == {"fine", "odd"}
    assert {hit.session_id for hit in await search_sessions(store, "tea", user_id=user)} == {"odd"}
    await delete_session(store, "odd")
    assert not await store.find_entries(space_of(user))


async def test_an_unusual_event_does_not_stop_the_index(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    await talk(store, "fine", "tea please")
    claim, row = await store.claim("fine", owner="somebody", lease_s=30)
    odd = [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": 5}]},
        {"type": "message", "role": "user", "content": "tea \ud800 and \x00 more"},
    ]
    events = [
        Event(session_id="fine", seq=row.seq + place, type="message", at_us=1, items=(item,))
        for place, item in enumerate(odd, 1)
    ]
    await store.commit(claim, Commit(patch=SessionPatch(), events=events, release=True))
    await talk(store, "later", "tea please")
    assert await index_sessions(store)
    assert "is not found by searches" in caplog.text
    assert {each.body["session"] for each in await store.find_entries(space_of(None))} == {
        "fine",
        "later",
    }


async def test_an_entry_refused_by_the_store_does_not_stop_the_index(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Picky(MemoryStore):
        async def put_entries(self, entries: Any) -> None:
            if any("coffee" in entry.text for entry in entries):
                raise UserError("no coffee")
            await super().put_entries(entries)

    store = Picky()
    await talk(store, "s1", "tea please")
    await talk(store, "s2", "coffee please")
    await talk(store, "s3", "tea please")
    assert {hit.session_id for hit in await search_sessions(store, "please")} == {"s1", "s3"}
    assert "no coffee" in caplog.text


@pytest.mark.parametrize("ahead", [False, True])
async def test_deleting_a_session_while_it_is_indexed_leaves_no_text(ahead: bool) -> None:
    class Racing(MemoryStore):
        is_raced = False

        async def put_entries(self, entries: Any) -> None:
            if not self.is_raced:
                self.is_raced = True
                await delete_session(self, "s")
                if ahead:
                    await talk(self, "s", "the new recipe", user_id="ada")
            await super().put_entries(entries)

    store = Racing()
    await talk(store, "s", "the secret recipe", user_id="ada")
    await index_sessions(store)
    for space in (space_of(None), space_of("ada")):
        assert not any("secret" in each.text for each in await store.find_entries(space))
    assert bool(await search_sessions(store, "recipe", user_id="ada")) is ahead


async def test_an_interrupted_deletion_is_finished_by_the_next_search() -> None:
    class Dying(MemoryStore):
        dies = False

        async def delete_entries(self, *args: Any, **kwargs: Any) -> int:
            if self.dies:
                raise KeyboardInterrupt
            return await super().delete_entries(*args, **kwargs)

    store = Dying()
    await talk(store, "s", "the secret recipe", user_id="ada")
    await talk(store, "s2", "tea")
    await search_sessions(store, "recipe")
    store.dies = True
    with pytest.raises(KeyboardInterrupt):
        await delete_with_texts(store, await store.get("s"))
    store.dies = False
    await search_sessions(store, "tea")
    assert not await store.find_entries(space_of("ada"))
    assert not await store.list_documents("sessions.search.going")


async def test_the_mark_of_a_failed_deletion_is_removed() -> None:
    clock = ManualClock()
    store = MemoryStore(clock)
    await talk(store, "s", "tea")
    await search_sessions(store, "tea")
    await store.claim("s", owner="somebody", lease_s=30)
    with pytest.raises(SessionBusy):
        await Session("s", store=store).delete()
    assert await search_sessions(store, "tea")
    assert await store.list_documents("sessions.search.going")
    clock.advance(3601)
    assert await search_sessions(store, "tea")
    assert not await store.list_documents("sessions.search.going")


async def test_a_query_that_is_not_text_is_refused() -> None:
    with pytest.raises(UserError, match="text"):
        await search_sessions(MemoryStore(), 5)  # type: ignore[arg-type]  # the fault under test


def test_an_excerpt_shows_the_text_around_the_words() -> None:
    text = f"{'a' * 300}\nthe refund\tis late {'b' * 300}"
    shown = excerpt(text, "late REFUND")
    assert shown.startswith("…")
    assert shown.endswith("…")
    assert "the refund is late" in shown
    assert excerpt("short", "nothing") == "short"
    assert excerpt("我要退款了", "想退款") == "我要退款了"
