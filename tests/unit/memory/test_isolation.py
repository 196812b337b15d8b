"""One user's memory cannot be found by another, through any door of a memory."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given, strategies as st

from ekiden.core.profile import MemoryScope, MemorySettings
from ekiden.embeddings.local import HashingEmbedder
from ekiden.memory import Memory, RemoteHit, space_of
from ekiden.project.settings.model import Settings
from ekiden.storage.base import Store
from tests.unit.memory.conftest import Shelf

VECTOR = MemorySettings(type="vector")
APP_WIDE = MemorySettings(scope="app")
HOSTILE = [
    "anna",
    "Anna",
    "anna ",
    "anna\x00",
    "anna;bob",
    "4:anna",
    "shop:anna",
    "shop/anna",
    "%",
    "*",
    "_nna",
    "an%",
    "' or 1=1 --",
    "../anna",
    "memory.user.anna",
    "ａｎｎａ",
    "a\u0301nna",
    "\u00e1nna",
    "\ud800",
    "\ufffd",
    "None",
    "null",
    "x" * 10_000,
]


def vectors() -> HashingEmbedder:
    return HashingEmbedder(64)


@pytest.mark.parametrize("settings", [MemorySettings(), VECTOR], ids=["words", "vector"])
async def test_the_memory_of_one_user_is_unreachable_for_another(
    store: Store, settings: MemorySettings
) -> None:
    anna = Memory(store, user="anna", app="shop", settings=settings, embedder=vectors())
    await anna.store("secret", "the pin is 4711", {"tags": ["pin"]})
    for other in HOSTILE[1:]:
        await Memory(store, user=other, app="shop", settings=settings, embedder=vectors()).store(
            "secret", "not hers"
        )
    before = await anna.list()
    for other in HOSTILE[1:]:
        memory = Memory(store, user=other, app="shop", settings=settings, embedder=vectors())
        assert [each.content for each in await memory.list()] == ["not hers"]
        for found in (
            await memory.retrieve("the pin is 4711", top_k=100, threshold=0),
            await memory.retrieve("anna secret pin 4711 *", top_k=100, threshold=0),
        ):
            assert {each.content for each in found} <= {"not hers"}
        shown = await memory.get("secret")
        assert shown is not None
        assert shown.content == "not hers"
        assert await memory.forget("secret") is True
        assert await memory.forget("secret") is False
        assert await memory.clear() == 0
    assert await anna.list() == before


async def test_apps_and_scopes_are_separate(store: Store) -> None:
    of_user = Memory(store, user="anna", app="shop")
    elsewhere = Memory(store, user="anna", app="bank")
    nowhere = Memory(store, user="anna")
    of_app = Memory(store, user="anna", app="shop", settings=APP_WIDE)
    like_user = Memory(store, app="anna", settings=APP_WIDE)
    for number, memory in enumerate((of_user, elsewhere, nowhere, of_app, like_user)):
        await memory.store("k", f"same words {number}")
    for number, memory in enumerate((of_user, elsewhere, nowhere, of_app, like_user)):
        assert [each.content for each in await memory.retrieve("same words")] == [
            f"same words {number}"
        ]


async def test_the_memory_of_an_app_is_shared_by_its_users(store: Store) -> None:
    await Memory(store, user="anna", app="shop", settings=APP_WIDE).store("k", "closed on Monday")
    shared = Memory(store, user="bob", app="shop", settings=APP_WIDE)
    assert [each.key for each in await shared.retrieve("Monday")] == ["k"]


def test_every_user_id_has_a_space_of_its_own() -> None:
    ids = [*HOSTILE, "ekiden"]
    spaces = [space_of("user", app=app, user=user) for app in ids for user in HOSTILE]
    spaces += [space_of("app", app=app, user=None) for app in HOSTILE]
    assert len(set(spaces)) == len(spaces)
    assert all(re.fullmatch(r"[a-z0-9.-]{1,80}", space) for space in spaces)


@pytest.mark.parametrize("scope", ["user", "app"])
@pytest.mark.parametrize("app", [None, ""])
def test_the_default_app_is_the_one_of_the_settings(scope: MemoryScope, app: str | None) -> None:
    named = space_of(scope, app=Settings().app, user="anna")
    assert space_of(scope, app=app, user="anna") == named


_ids = st.text(st.characters(exclude_categories=()), min_size=1, max_size=6)


@given(one=st.tuples(_ids, _ids), other=st.tuples(_ids, _ids))
def test_different_id_pairs_never_share_a_space(
    one: tuple[str, str], other: tuple[str, str]
) -> None:
    same = space_of("user", app=one[0], user=one[1]) == space_of(
        "user", app=other[0], user=other[1]
    )
    assert same == (one == other)


async def test_keys_of_other_users_from_a_backend_are_ignored(
    quick_store: Store, shelf: Shelf
) -> None:
    settings = MemorySettings(type="vector", backend="shelf")

    def memory(user: str) -> Memory:
        return Memory(quick_store, user=user, settings=settings, embedder=vectors())

    await memory("anna").store("secret", "the pin is 4711")
    await memory("bob").store("own", "nothing much")
    shelf.says = [RemoteHit(key="secret", score=1.0), RemoteHit(key="own", score=7.0)]
    [found] = await memory("bob").retrieve("pin?")
    assert (found.key, found.score) == ("own", 1.0)


async def test_the_user_of_a_memory_cannot_be_changed(quick_store: Store) -> None:
    memory: Any = Memory(quick_store, user="bob")
    with pytest.raises(AttributeError):
        memory.space = space_of("user", app=None, user="anna")
