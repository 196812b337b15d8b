"""The contract of `SearchStore`: nothing is ever found in another space."""

from __future__ import annotations

import random
from typing import Any

import pytest

from ekiden.storage.base import SearchEntry, Store
from ekiden.testing.contracts.base import StoreContractBase
from ekiden.testing.contracts.search import entry, found, listed

ALIKE = (
    "a",
    "A",
    "a/",
    "a/b",
    "/a",
    "a ",
    " a",
    "a\x00",
    "a\x00b",
    "a%",
    "_",
    "%",
    "*",
    "1",
    "01",
    "1·a",
    "é",
    "e\u0301",
    "É",
    "ａ",
    "ß",
    "ss",
    "I",
    "ı",
    "\u200ba",
    "\x10a",
    "\x100000",
    "茶",
    "🏃",
    "'; DROP TABLE search_entries; --",
    'a" OR "1"="1',
)
"""Names that a careless store takes for each other."""

_TEXTS = ("tea", "Tea time", "green tea", "茶", "绿茶 tea", "1·tea", "a tea 🍵", "")
_QUESTIONS = ("tea", "茶", "green", "1 a", "🍵")


class SpaceContract(StoreContractBase):
    """Spaces are apart, whatever they are called."""

    async def test_spaces_with_names_that_look_alike_are_apart(
        self, store: Store, other: Store
    ) -> None:
        await store.put_entries(
            [
                entry("k", f"tea w{number}", space=space, body=number, vector=[1.0], model="m")
                for number, space in enumerate(ALIKE)
            ]
        )
        for number, space in enumerate(ALIKE):
            (listed_one,) = await other.find_entries(space)
            assert (listed_one.space, listed_one.body) == (space, number)
            (by_words,) = await other.search_text(space, "tea", limit=100)
            assert (by_words.entry.space, by_words.entry.body) == (space, number)
            (by_meaning,) = await other.search_vectors(space, [1.0], model="m", limit=100)
            assert (by_meaning.entry.space, by_meaning.entry.body) == (space, number)
            assert await found(other, f"w{number}", space) == ["k"]
            assert await found(other, f"w{number + 1} w{number - 1}", space) == []
        for number, space in enumerate(ALIKE):
            assert await store.delete_entries(space) == 1
            for later in ALIKE[number + 1 :: 7]:
                assert await listed(store, later) == ["k"]

    async def test_keys_that_look_alike_are_apart(self, store: Store) -> None:
        await store.put_entries([entry(key, f"tea {key}", body=key) for key in ALIKE])
        back = await store.find_entries("s")
        assert {each.key for each in back} == set(ALIKE)
        assert all(each.body == each.key for each in back)
        assert await store.delete_entries("s", keys=["a"]) == 1
        assert len(await store.find_entries("s")) == len(ALIKE) - 1

    async def test_a_new_space_has_nothing_of_one_that_was_removed(self, store: Store) -> None:
        await store.put_entries([entry("k", "tea", space="old", vector=[1.0], model="m")])
        await store.delete_entries("old")
        await store.put_entries([entry("k", "coffee", space="new", vector=[1.0, 0.0], model="m")])
        assert await found(store, "tea", "new") == []
        assert await found(store, "tea", "old") == []
        assert list(await store.search_vectors("new", [1.0], model="m")) == []

    async def test_what_words_a_space_has_does_not_show_in_another(self, store: Store) -> None:
        await store.put_entries([entry("k", "tea"), entry("l", "cup")])
        before = await store.search_text("s", "tea cup")
        await store.put_entries([entry(str(n), "tea", space="t") for n in range(30)])
        assert await store.search_text("s", "tea cup") == before

    @pytest.mark.parametrize("seed", range(4))
    async def test_whatever_is_done_each_space_has_its_own(
        self, store: Store, other: Store, seed: int
    ) -> None:
        chance = random.Random(seed)
        spaces, keys = chance.sample(ALIKE, 4), chance.sample(ALIKE, 4)
        model: dict[str, dict[str, SearchEntry]] = {space: {} for space in spaces}
        for number in range(40):
            handle = chance.choice((store, other))
            space, some = chance.choice(spaces), chance.sample(keys, chance.randint(1, 3))
            if chance.random() < 0.7:
                entries = [
                    _random_entry(chance, chance.choice(spaces), key, number) for key in some
                ]
                await handle.put_entries(entries)
                for each in entries:
                    model[each.space][each.key] = each
            else:
                dropped = None if chance.random() < 0.3 else some
                gone = [key for key in model[space] if dropped is None or key in dropped]
                assert await handle.delete_entries(space, keys=dropped) == len(gone)
                for key in gone:
                    del model[space][key]
        for space in spaces:
            await _check(other, space, model[space])


def _random_entry(chance: random.Random, space: str, key: str, number: int) -> SearchEntry:
    embedder = chance.choice(("", "m", "n"))
    return entry(
        key,
        chance.choice(_TEXTS),
        space=space,
        body=[space, key, number],
        vector=[1.0, 0.0] if embedder else None,
        model=embedder,
    )


async def _check(store: Store, space: str, model: dict[str, SearchEntry]) -> None:
    """The space has what it should have, and nothing else is found in it."""
    back = await store.find_entries(space)
    assert [(each.key, each.text, each.body, each.model) for each in back] == [
        (key, model[key].text, model[key].body, model[key].model) for key in sorted(model)
    ]
    for embedder in ("m", "n"):
        hits = await store.search_vectors(space, [1.0, 0.0], model=embedder, limit=50)
        having = sorted(key for key, each in model.items() if each.model == embedder)
        assert [(hit.entry.key, hit.entry.body) for hit in hits] == [
            (key, model[key].body) for key in having
        ]
    for question in _QUESTIONS:
        hits = await store.search_text(space, question, limit=50)
        assert {hit.entry.key for hit in hits} == _having(model, question)
        assert all(hit.entry.body == model[hit.entry.key].body for hit in hits)


def _having(model: dict[str, Any], question: str) -> set[str]:
    """Enough for these questions: their words are parted by spaces, or single characters."""
    return {
        key
        for key, each in model.items()
        if any(
            word in each.text.casefold().replace("·", " ").split()
            or (not word.isascii() and word in each.text)
            for word in question.split()
        )
    }
