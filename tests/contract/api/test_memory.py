"""What agents remember."""

from __future__ import annotations

from typing import Any

import pytest

from ekiden.api.memory import MemoryEntry
from ekiden.client.ekiden import Ekiden
from ekiden.core.documents import to_json
from ekiden.core.errors.memory import MemoryInvalid, MemoryNotFound
from ekiden.core.errors.server import RequestInvalid

KEYS = ["a", "a/b", "颜色", "?&#%", "..", "日本 語", "📦"]


async def test_memories_are_stored_read_listed_and_forgotten_by_key(ekiden: Ekiden) -> None:
    for key in KEYS:
        stored = await ekiden.memory.store(f"about {key}", key=key, user="ann")
        assert to_json(stored) == {"key": key, "stored": True}
    listed = [each async for each in ekiden.memory.list(user="ann")]
    assert {each.key for each in listed} == set(KEYS)
    assert [each async for each in ekiden.memory.export(user="ann")] == listed
    for each in listed:
        assert await ekiden.memory.get(each.key, user="ann") == each
        await ekiden.memory.forget(each.key, user="ann")
        with pytest.raises(MemoryNotFound):
            await ekiden.memory.get(each.key, user="ann")
        with pytest.raises(MemoryNotFound):
            await ekiden.memory.forget(each.key, user="ann")


async def test_a_list_continues_after_any_key(ekiden: Ekiden) -> None:
    for number in range(59):
        await ekiden.memory.store("x", key=f"k{number:03}", user="ann")
    found = ekiden.memory.list(user="ann")
    page = await found.page(limit=20)
    assert (len(page.items), page.next_cursor) == (20, "k019")
    rest = [each.key async for each in found.rest(cursor=page.next_cursor)]
    assert rest == [f"k{number:03}" for number in range(20, 59)]
    assert (await found.page(limit=59)).next_cursor is None
    assert (await found.page(cursor="z" * 512)).items in ((), [])


async def test_a_key_is_derived_from_the_content_and_replaces_an_existing_memory(
    ekiden: Ekiden,
) -> None:
    made = await ekiden.memory.store("她喜欢蓝色。", metadata={"tags": ["colour"]}, user="ann")
    found = await ekiden.memory.get(made.key, user="ann")
    assert (found.content, found.metadata) == ("她喜欢蓝色。", {"tags": ["colour"]})
    assert found.agent is None
    assert (await ekiden.memory.put(made.key, "red", user="ann")).key == made.key
    changed = await ekiden.memory.get(made.key, user="ann")
    assert (changed.content, changed.metadata) == ("red", {})
    assert (await ekiden.memory.store("x", key=" colour ", user="ann")).key == "colour"


async def test_memories_are_found_by_words_and_by_meaning(ekiden: Ekiden) -> None:
    await ekiden.memory.store("She likes blue.", key="colour", user="ann")
    await ekiden.memory.store("她对花生过敏", key="food", user="ann")
    found = await ekiden.memory.search("blue", user="ann")
    [only] = found.items
    assert (only.key, only.score, only.found_by) == ("colour", 1.0, "words")
    assert (tuple(found.notes), found.next_cursor) == ((), None)
    meant = await ekiden.memory.search("bluish", user="ann", meaning=True, limit=1, threshold=0.1)
    assert [each.key for each in meant.items] == ["colour"]
    assert not (await ekiden.memory.search("", user="ann")).items
    assert not (await ekiden.memory.search("blue", shared=True)).items


async def test_memories_of_users_and_of_the_app_are_separate(ekiden: Ekiden) -> None:
    await ekiden.memory.store("hers", key="k", user="ann")
    await ekiden.memory.store("everybody's", key="k", shared=True)
    assert (await ekiden.memory.get("k", shared=True)).content == "everybody's"
    assert [each async for each in ekiden.memory.list(user="bob")] == []
    assert (await ekiden.memory.clear(user="ann")).forgotten == 1
    assert (await ekiden.memory.clear(user="ann")).forgotten == 0
    [left] = [each async for each in ekiden.memory.list(shared=True)]
    assert isinstance(left, MemoryEntry)


@pytest.mark.parametrize("whose", [{}, {"user": "ann", "shared": True}, {"user": ""}])
async def test_a_memory_call_must_name_the_user_or_be_shared(
    ekiden: Ekiden, whose: dict[str, Any]
) -> None:
    memory = ekiden.memory
    for asked in (
        lambda: memory.list(**whose).page(),
        lambda: memory.store("x", **whose),
        lambda: memory.clear(**whose),
        lambda: memory.get("k", **whose),
        lambda: memory.put("k", "x", **whose),
        lambda: memory.forget("k", **whose),
        lambda: memory.search("x", **whose),
        lambda: anext(memory.export(**whose)),
    ):
        with pytest.raises(RequestInvalid):
            await asked()


async def test_invalid_memory_arguments_are_refused(ekiden: Ekiden) -> None:
    memory = ekiden.memory
    for content, key in (("", None), ("x" * 70_000, None), ("x", " "), ("x", "\n")):
        with pytest.raises(RequestInvalid):
            await memory.store(content, key=key, user="ann")
    with pytest.raises(MemoryInvalid):
        await memory.store("  ", user="ann")
    for limit in (0, 101):
        with pytest.raises(RequestInvalid):
            await memory.search("x", user="ann", limit=limit)
    for threshold in (2.0, float("nan")):
        with pytest.raises(RequestInvalid):
            await memory.search("x", user="ann", threshold=threshold)
    assert [each async for each in memory.list(user="ann")] == []


async def test_sync_without_a_back_end_returns_an_empty_list(ekiden: Ekiden) -> None:
    assert to_json(await ekiden.memory.sync()) == {"items": [], "next_cursor": None}
