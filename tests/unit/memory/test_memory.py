"""What is stored is found again, by its words and its meaning."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from ekiden.core.errors import ModelError, UserError
from ekiden.core.errors.memory import MemoryInvalid, MemoryTooLarge, NoEmbedder, NoMemory
from ekiden.core.profile import MemorySettings
from ekiden.embeddings.local import HashingEmbedder
from ekiden.memory import Memory
from ekiden.memory.search import MAX_CONTENT, MAX_KEY, key_of
from ekiden.storage.base import Store
from ekiden.storage.memory import MemoryStore

VECTOR = MemorySettings(type="vector")
WORDS = MemorySettings()


class Meanings:
    """An embedder that knows three subjects, and can be away."""

    name = "subjects"
    dimensions = 4
    subjects = (("colour", "blue", "red"), ("food", "ramen", "eat"), ("home", "lisbon", "live"))

    def __init__(self, name: str = "subjects") -> None:
        self.name = name
        self.is_disconnected = False
        self.embedded: list[str] = []

    def embed(self, texts: Sequence[str]) -> Any:
        if self.is_disconnected:
            raise ModelError("the endpoint is away")
        self.embedded.extend(texts)
        rows = np.zeros((len(texts), 4), dtype=np.float32)
        for row, text in zip(rows, texts, strict=True):
            for place, words in enumerate(self.subjects):
                row[place] = sum(word in text.lower() for word in words)
            row[3] = 0.0 if row.any() else 1.0
            row /= np.linalg.norm(row)
        return rows


def keys(found: Sequence[Any]) -> list[str]:
    return [each.key for each in found]


@pytest.mark.parametrize("settings", [WORDS, VECTOR], ids=["words", "vector"])
async def test_an_entry_is_stored_found_listed_and_deleted(
    store: Store, settings: MemorySettings
) -> None:
    memory = Memory(
        store, user="u", app="shop", settings=settings, embedder=Meanings(), agent="desk"
    )
    await memory.store("colour", "Her favourite is blue.", {"tags": ["taste"], "n": 1})
    await memory.store("dish", "She likes ramen. 彼女はラーメンが好き。")
    [best, *_] = await memory.retrieve("blue")
    assert (best.key, best.content) == ("colour", "Her favourite is blue.")
    assert best.metadata == {"tags": ["taste"], "n": 1}
    assert best.agent == "desk"
    assert best.stored_at_us > 1_600_000_000_000_000
    assert best.score is not None
    assert 0 < best.score <= 1
    assert keys(await memory.retrieve("ラーメン", top_k=1)) == ["dish"]
    assert keys(await memory.retrieve("taste", top_k=1)) == ["colour"]
    assert keys(await memory.list()) == ["colour", "dish"]
    assert keys(await memory.list(after="colour")) == ["dish"]
    found = await memory.get("dish")
    assert found is not None
    assert found.content == "She likes ramen. 彼女はラーメンが好き。"
    assert await memory.forget("dish") is True
    assert await memory.forget("dish") is False
    assert await memory.get("dish") is None
    assert await memory.clear() == 1
    assert await memory.list() == []


async def test_a_second_entry_under_a_key_replaces_the_first(store: Store) -> None:
    memory = Memory(store, user="u", settings=VECTOR, embedder=Meanings())
    await memory.store("k", "blue")
    await memory.store(" k ", "ramen")
    assert [each.content for each in await memory.list()] == ["ramen"]
    assert await memory.retrieve("blue") == []


@pytest.mark.parametrize(
    "key", ["家族 👨‍👩‍👧", "名前\u3000前田", "a/b:c'\"", "x" * MAX_KEY, "ключ"]
)
async def test_a_key_may_be_written_in_any_script(store: Store, key: str) -> None:
    memory = Memory(store, user="u")
    assert await memory.store(key, "kept") == key
    assert keys(await memory.list()) == [key]
    assert await memory.forget(key)


async def test_without_a_key_equal_content_is_stored_once(quick_store: Store) -> None:
    memory = Memory(quick_store, user="u")
    first = await memory.store(None, "It rains\n in  Lisbon")
    assert await memory.store(None, "It rains in Lisbon") == first
    assert await memory.store(None, "It rains in Porto") != first
    assert len(await memory.list()) == 2
    assert first == key_of("It rains in Lisbon")


async def test_an_entry_is_found_by_meaning_without_a_common_word(store: Store) -> None:
    memory = Memory(store, user="u", settings=VECTOR, embedder=Meanings())
    await memory.store(None, "blue")
    await memory.store(None, "ramen")
    [found] = await memory.retrieve("what does she eat?")
    assert (found.content, found.found_by) == ("ramen", "meaning")


async def test_a_match_by_words_is_found_beside_matches_by_meaning(store: Store) -> None:
    memory = Memory(store, user="u", settings=VECTOR, embedder=Meanings())
    for number in range(12):
        await memory.store(f"c{number:02}", f"blue number {number}")
    await memory.store("code", "TS2304 came from missing types")
    found = await memory.retrieve("the red TS2304 error", top_k=2)
    assert "code" in keys(found)
    assert {each.found_by for each in found} == {"words", "meaning"}


async def test_the_threshold_applies_to_words_and_meanings(quick_store: Store) -> None:
    memory = Memory(quick_store, user="u", settings=VECTOR, embedder=Meanings())
    await memory.store("both", "blue ramen")
    assert keys(await memory.retrieve("red", threshold=0.5)) == ["both"]
    assert await memory.retrieve("red", threshold=0.9) == []
    strict = MemorySettings(type="vector", threshold=0.9)
    assert (
        await Memory(quick_store, user="u", settings=strict, embedder=Meanings()).retrieve("red")
        == []
    )
    words = Memory(quick_store, user="u")
    assert keys(await words.retrieve("blue sky", threshold=0.5)) == ["both"]
    assert await words.retrieve("blue sky", threshold=0.6) == []


async def test_top_k_of_the_settings_limits_the_results(quick_store: Store) -> None:
    memory = Memory(quick_store, user="u", settings=MemorySettings(top_k=2))
    for number in range(9):
        await memory.store(f"k{number}", "same words")
    assert len(await memory.retrieve("same words")) == 2
    assert len(await memory.retrieve("same words", top_k=7)) == 7
    assert len(await Memory(quick_store, user="u").retrieve("same words")) == 5


@pytest.mark.parametrize("query", ["", "  \n", "\x00", "!!! ???", '" OR 1=1 --', "a" * 100_000])
async def test_a_query_has_no_special_syntax(store: Store, query: str) -> None:
    memory = Memory(store, user="u")
    await memory.store("k", "something else")
    assert await memory.retrieve(query) == []


async def test_lone_surrogates_are_replaced(store: Store) -> None:
    memory = Memory(store, user="u\ud800", app="a\udfff", settings=VECTOR, embedder=Meanings())
    await memory.store("k", "blue \ud83d and \x00 more", {"note": "\ud800"})
    [found] = await memory.retrieve("blue \udc00")
    assert found.content == "blue \ufffd and \ufffd more"


@pytest.mark.parametrize(
    ("key", "content", "metadata", "error"),
    [
        ("", "x", None, MemoryInvalid),
        ("  ", "x", None, MemoryInvalid),
        ("a\nb", "x", None, MemoryInvalid),
        ("\ud800", "x", None, MemoryInvalid),
        ("k" * (MAX_KEY + 1), "x", None, MemoryTooLarge),
        ("k", "", None, MemoryInvalid),
        ("k", " \n", None, MemoryInvalid),
        ("k", 7, None, MemoryInvalid),
        ("k", "字" * (MAX_CONTENT // 3 + 1), None, MemoryTooLarge),
        ("k", "x", {"a": object()}, MemoryInvalid),
        ("k", "x", {"a": float("nan")}, MemoryInvalid),
        ("k", "x", ["a"], MemoryInvalid),
        ("k", "x", {"a": "b" * 20_000}, MemoryTooLarge),
    ],
)
async def test_invalid_content_is_refused_and_nothing_is_stored(
    quick_store: Store, key: Any, content: Any, metadata: Any, error: type[Exception]
) -> None:
    memory = Memory(quick_store, user="u")
    await memory.store("kept", "as it was")
    with pytest.raises(error):
        await memory.store(key, content, metadata)
    assert [each.content for each in await memory.list()] == ["as it was"]


async def test_the_largest_content_is_stored(store: Store) -> None:
    memory = Memory(store, user="u")
    content = "字" * (MAX_CONTENT // 3)
    await memory.store("k" * MAX_KEY, content)
    found = await memory.get("k" * MAX_KEY)
    assert found is not None
    assert found.content == content


@pytest.mark.parametrize(
    ("top_k", "threshold"), [(0, None), (101, None), (True, None), (1, -0.1), (1, 1.1), (1, "x")]
)
async def test_invalid_limits_and_thresholds_are_refused(
    quick_store: Store, top_k: Any, threshold: Any
) -> None:
    with pytest.raises(UserError):
        await Memory(quick_store, user="u").retrieve("x", top_k, threshold)


async def test_entries_of_another_embedder_are_embedded_again_and_never_compared(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ekiden.memory.search._RENEWAL_S", 60.0)  # However busy the machine is.
    old = Memory(store, user="u", settings=VECTOR, embedder=HashingEmbedder(64))
    for number in range(70):
        await old.store(f"k{number:02}", f"blue {number}")
    plain = Memory(store, user="u")
    await plain.store("words", "ramen")
    before = {each.key: each.stored_at_us for each in await plain.list()}
    meanings = Meanings()
    new = Memory(store, user="u", settings=VECTOR, embedder=meanings)
    [found] = await new.retrieve("eat")
    assert found.key == "words"
    assert len(meanings.embedded) == 72
    meanings.embedded.clear()
    await new.retrieve("eat")
    assert meanings.embedded == ["eat"]
    assert {each.key: each.stored_at_us for each in await new.list()} == before
    assert not await store.find_entries(new.space, not_of_model="subjects/4")


async def test_an_embedder_of_another_dimension_is_a_different_embedder(quick_store: Store) -> None:
    class Longer(Meanings):
        dimensions = 8

        def embed(self, texts: Sequence[str]) -> Any:
            return np.hstack([super().embed(texts), np.zeros((len(texts), 4), dtype=np.float32)])

    await Memory(quick_store, user="u", settings=VECTOR, embedder=Meanings()).store("k", "blue")
    longer = Memory(quick_store, user="u", settings=VECTOR, embedder=Longer())
    assert keys(await longer.retrieve("red")) == ["k"]


async def test_too_many_entries_for_one_embedding_are_noted_and_found_by_words(
    quick_store: Store,
) -> None:
    plain = Memory(quick_store, user="u")
    for number in range(300):
        await plain.store(f"k{number:03}", f"blue {number}")
    memory = Memory(quick_store, user="u", settings=VECTOR, embedder=Meanings())
    first = await memory.recall("blue 299", top_k=1)
    assert keys(first.found) == ["k299"]
    assert "no new vectors yet" in " ".join(first.notes)
    assert (await memory.recall("red")).notes == []


async def test_an_embedder_outage_only_disables_the_search_by_meaning_for_a_while(
    quick_store: Store,
) -> None:
    meanings = Meanings()
    memory = Memory(quick_store, user="u", settings=VECTOR, embedder=meanings)
    meanings.is_disconnected = True
    await memory.store("dish", "ramen at noon")
    answer = await memory.recall("noon")
    assert keys(answer.found) == ["dish"]
    assert answer.notes == ["The embedding is not available now: this was found by words only."]
    meanings.is_disconnected = False
    assert keys(await memory.retrieve("eat")) == ["dish"]


async def test_an_entry_deleted_or_changed_during_its_embedding_stays_so(
    store: Store,
) -> None:
    plain = Memory(store, user="u")
    await plain.store("gone", "blue sky")
    await plain.store("new", "blue sea")
    loop = asyncio.get_running_loop()

    class Interrupted(Meanings):
        def embed(self, texts: Sequence[str]) -> Any:
            if len(texts) == 2:
                asyncio.run_coroutine_threadsafe(plain.forget("gone"), loop).result()
                asyncio.run_coroutine_threadsafe(plain.store("new", "ramen"), loop).result()
            return super().embed(texts)

    memory = Memory(store, user="u", settings=VECTOR, embedder=Interrupted())
    await memory.retrieve("red")
    assert [(each.key, each.content) for each in await memory.list()] == [("new", "ramen")]
    assert await memory.retrieve("red") == []


async def test_embedding_does_not_block_the_event_loop(quick_store: Store) -> None:
    loop = asyncio.get_running_loop()
    turned = asyncio.Event()

    class Slow(Meanings):
        def embed(self, texts: Sequence[str]) -> Any:
            async def turn() -> None:
                turned.set()

            asyncio.run_coroutine_threadsafe(turn(), loop).result(timeout=60)
            return super().embed(texts)

    await Memory(quick_store, user="u", settings=VECTOR, embedder=Slow()).store("k", "blue")
    assert turned.is_set()


async def test_a_missing_embedder_is_reported_with_advice(
    quick_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ekiden.embeddings.local.find_spec", lambda name: None)
    memory = Memory(quick_store, user="u", settings=VECTOR)
    with pytest.raises(NoEmbedder, match=r"ekiden\[local\]"):
        await memory.store("k", "blue")
    assert await memory.list() == []


async def test_an_embedder_is_created_on_first_use(quick_store: Store) -> None:
    made = []

    def make() -> Meanings:
        made.append(1)
        return Meanings()

    memory = Memory(quick_store, user="u", settings=VECTOR, embedder=make)
    assert await memory.list() == []
    assert made == []
    await memory.store("k", "blue")
    await memory.retrieve("red")
    assert made == [1]


async def test_a_text_without_a_vector_is_stored_and_found_by_words(store: Store) -> None:
    memory = Memory(store, user="u", settings=VECTOR, embedder=HashingEmbedder(64))
    await memory.store(None, "!!! ???")
    await memory.store("k", "plain words")
    assert keys(await memory.retrieve("words", top_k=1)) == ["k"]
    assert await memory.retrieve("…") == []


@pytest.mark.parametrize("user", [None, ""])
async def test_without_a_user_user_memory_is_refused(quick_store: Store, user: str | None) -> None:
    memory = Memory(quick_store, user=user, app="shop")
    for call in (
        memory.store("k", "x"),
        memory.retrieve("x"),
        memory.forget("k"),
        memory.list(),
        memory.clear(),
        memory.get("k"),
    ):
        with pytest.raises(NoMemory, match="no user"):
            await call


@given(
    content=st.text(min_size=1, max_size=200), key=st.text(st.characters(), min_size=1, max_size=40)
)
async def test_any_text_is_returned_unchanged_or_refused(content: str, key: str) -> None:
    async with MemoryStore() as store:
        memory = Memory(store, user="u")
        try:
            stored = await memory.store(key, content)
        except MemoryInvalid:
            assert await memory.list() == []
            return
        found = await memory.get(stored)
        assert found is not None
        assert found.content == content.replace("\x00", "\ufffd")
