"""The contract of `SearchStore`: the search by vectors, and the separation of spaces."""

from __future__ import annotations

import random
from dataclasses import replace
from math import cos, hypot, sin
from typing import Any

import pytest

from ekiden.core.errors import UserError
from ekiden.storage.base import SearchEntry, Store
from ekiden.testing.contracts.base import StoreContractBase
from ekiden.testing.contracts.search import entry, found, listed, scores


def at(angle: float) -> list[float]:
    """A unit vector in the plane."""
    return [cos(angle), sin(angle)]


def of(key: str, vector: Any, model: str = "m", **fields: Any) -> SearchEntry:
    """An entry with a vector."""
    return entry(key, key, vector=vector, model=model, **fields)


class VectorContract(StoreContractBase):
    """Texts are found by the cosine of their vectors."""

    async def test_the_nearest_vector_comes_first_with_its_cosine_as_score(
        self, store: Store, other: Store
    ) -> None:
        angles = {"a": 1.0, "b": 0.0, "c": 0.5, "opposite": 3.0}
        await store.put_entries([of(key, at(angle)) for key, angle in angles.items()])
        hits = await other.search_vectors("s", at(0.4), model="m")
        assert [hit.entry.key for hit in hits] == ["c", "b", "a", "opposite"]
        assert [hit.score for hit in hits] == pytest.approx(
            [cos(0.1), cos(0.4), cos(0.6), 0], abs=1e-5
        )
        assert all(hit.entry.vector is None and hit.entry.model == "m" for hit in hits)
        assert [hit.entry.text for hit in hits] == ["c", "b", "a", "opposite"]

    async def test_a_stored_vector_is_returned_with_length_1(self, store: Store) -> None:
        await store.put_entries([of("k", at(1.0)), of("l", [3, 4]), of("zero", [0.0, 0.0])])
        back = {each.key: each.vector for each in await store.find_entries("s")}
        assert back["k"] == pytest.approx(at(1.0), abs=1e-6)
        assert back["l"] == pytest.approx([0.6, 0.8], abs=1e-6)
        assert back["zero"] == (0.0, 0.0)

    async def test_the_length_of_a_vector_does_not_affect_the_score(self, store: Store) -> None:
        await store.put_entries([of("a", [1e-30, 0.0]), of("b", [0.0, 1e30]), of("c", [7, 7])])
        hits = scores(await store.search_vectors("s", [1e20, 0.0], model="m"))
        assert hits == [("a", 1.0), ("c", 0.7071), ("b", 0.0)]

    async def test_a_zero_vector_scores_zero(self, store: Store) -> None:
        await store.put_entries([of("a", [0.0, 0.0]), of("b", at(0.0))])
        assert scores(await store.search_vectors("s", at(0.0), model="m")) == [
            ("b", 1.0),
            ("a", 0.0),
        ]
        assert [
            score for _, score in scores(await store.search_vectors("s", [0.0, 0.0], model="m"))
        ] == [0.0, 0.0]

    async def test_equally_near_entries_are_sorted_by_key(self, store: Store) -> None:
        await store.put_entries([of(key, at(1.0)) for key in "dbac"])
        hits = await store.search_vectors("s", at(0.9), model="m", limit=3)
        assert [hit.entry.key for hit in hits] == ["a", "b", "c"]

    async def test_vectors_of_another_model_are_never_compared(self, store: Store) -> None:
        await store.put_entries(
            [of("a", at(0.0)), of("b", at(0.0), model="n"), of("c", [1.0, 0.0, 0.0], model="o")]
        )
        await store.put_entries([entry("d", "without")])
        for model, keys in {"m": ["a"], "n": ["b"], "o": [], "M": [], "": [], "\ud800": []}.items():
            hits = await store.search_vectors("s", at(0.0), model=model)
            assert [hit.entry.key for hit in hits] == keys

    async def test_vectors_of_another_length_are_never_compared(self, store: Store) -> None:
        await store.put_entries([of("a", at(0.0))])
        assert list(await store.search_vectors("s", [1.0, 0.0, 0.0], model="m")) == []
        assert list(await store.search_vectors("s", [1.0], model="m")) == []
        with pytest.raises(UserError, match="'b' of space 's' has 3 numbers"):
            await store.put_entries([of("b", [1.0, 0.0, 0.0])])
        with pytest.raises(UserError, match="numbers, but those of model 'n'"):
            await store.put_entries([of("b", [1.0], model="n"), of("c", [1.0, 0.0], model="n")])
        assert await listed(store) == ["a"]

    async def test_the_vector_length_of_a_model_is_fixed_per_space(self, store: Store) -> None:
        await store.put_entries([of("a", at(0.0)), of("a", [1.0, 0.0, 0.0], space="t")])
        hits = await store.search_vectors("t", [1.0, 0.0, 0.0], model="m")
        assert [hit.entry.key for hit in hits] == ["a"]

    async def test_all_vectors_of_a_model_can_be_replaced_by_longer_ones(
        self, store: Store
    ) -> None:
        await store.put_entries([of("a", at(0.0)), of("b", at(1.0))])
        await store.put_entries([of("a", [1.0, 0.0, 0.0]), of("b", [0.0, 1.0, 0.0])])
        hits = await store.search_vectors("s", [0.0, 1.0, 0.0], model="m")
        assert [hit.entry.key for hit in hits] == ["b", "a"]

    async def test_a_replaced_entry_has_only_its_new_vector(self, store: Store) -> None:
        await store.put_entries([of("a", at(0.0)), of("b", at(0.0)), of("c", at(0.0))])
        await store.put_entries([entry("a", "a"), of("b", at(0.0), model="n")])
        hits = await store.search_vectors("s", at(0.0), model="m")
        assert [hit.entry.key for hit in hits] == ["c"]
        hits = await store.search_vectors("s", at(0.0), model="n")
        assert [hit.entry.key for hit in hits] == ["b"]

    async def test_entries_without_a_vector_of_a_model_are_found(self, store: Store) -> None:
        await store.put_entries(
            [of("a", at(0.0)), entry("b"), of("c", at(0.0), model="n"), entry("d", model="m")]
        )
        assert await listed(store, not_of_model="m") == ["b", "c", "d"]
        assert await listed(store, not_of_model="n") == ["a", "b", "d"]
        assert await listed(store, not_of_model="o", after="a", limit=2) == ["b", "c"]
        assert await listed(store, not_of_model="m", keys=["a", "d"]) == ["d"]

    @pytest.mark.parametrize("vector", [[], [float("nan")], [float("inf"), 1.0], ["a"], [None]])
    async def test_an_invalid_query_vector_is_refused(self, store: Store, vector: Any) -> None:
        with pytest.raises(UserError, match="the vector of the question"):
            await store.search_vectors("s", vector, model="m")

    async def test_long_vectors_are_ranked_by_their_exact_cosine(self, store: Store) -> None:
        chance = random.Random(5)

        def direction() -> list[float]:
            numbers = [chance.gauss(0, 1) for _ in range(768)]
            size = hypot(*numbers)
            return [number / size for number in numbers]

        vectors = {f"{number:03}": direction() for number in range(200)}
        await store.put_entries([of(key, vector) for key, vector in vectors.items()])
        asked = direction()
        cosines = {
            key: sum(a * b for a, b in zip(vector, asked, strict=True))
            for key, vector in vectors.items()
        }
        hits = await store.search_vectors("s", asked, model="m", limit=20)
        nearest = sorted(cosines, key=lambda key: -cosines[key])[:20]
        assert [hit.entry.key for hit in hits] == nearest
        assert [hit.score for hit in hits] == pytest.approx(
            [cosines[key] for key in nearest], abs=1e-5
        )

    async def test_put_vectors_skips_entries_that_changed_meanwhile(
        self, store: Store, other: Store
    ) -> None:
        await store.put_entries([of(key, at(1.0), body=[key]) for key in ("a", "b", "c", "d")])
        found = await store.find_entries("s")
        await other.delete_entries("s", keys=["b"])
        await other.put_entries([entry("c", "another text")])
        await other.put_entries([entry("d", "d", body=["newer"])])
        new = [replace(each, vector=[0.0, 1.0, 0.0], model="n") for each in found]
        assert list(await store.put_vectors(new)) == ["a", "d"]
        assert list(await store.put_vectors([])) == []
        assert scores(await other.search_vectors("s", [0.0, 1.0, 0.0], model="n")) == [
            ("a", 1.0),
            ("d", 1.0),
        ]
        kept = await other.find_entries("s")
        assert [(each.key, each.text, each.body, each.model) for each in kept] == [
            ("a", "a", ["a"], "n"),
            ("c", "another text", None, ""),
            ("d", "d", ["newer"], "n"),
        ]
        [hit] = await other.search_text("s", "a")
        assert hit.entry.key == "a"

    async def test_put_vectors_refuses_a_wrong_length_for_the_model(self, store: Store) -> None:
        await store.put_entries([of("a", at(1.0)), of("b", [1.0, 0.0, 0.0], model="n")])
        [first, _] = await store.find_entries("s")
        with pytest.raises(UserError, match="3"):
            await store.put_vectors([replace(first, vector=at(0.0), model="n")])
        [still, _] = await store.find_entries("s")
        assert still.model == "m"
        nowhere = replace(first, space="nothing here", vector=at(0.0))
        assert list(await store.put_vectors([nowhere])) == []


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
"""Names of spaces that a store may confuse."""

_TEXTS = ("tea", "Tea time", "green tea", "茶", "绿茶 tea", "1·tea", "a tea 🍵", "")
_QUESTIONS = ("tea", "茶", "green", "1 a", "🍵")


class SpaceContract(StoreContractBase):
    """Spaces are separate, even with similar names."""

    async def test_spaces_with_similar_names_are_separate(self, store: Store, other: Store) -> None:
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

    async def test_similar_keys_are_separate(self, store: Store) -> None:
        await store.put_entries([entry(key, f"tea {key}", body=key) for key in ALIKE])
        back = await store.find_entries("s")
        assert {each.key for each in back} == set(ALIKE)
        assert all(each.body == each.key for each in back)
        assert await store.delete_entries("s", keys=["a"]) == 1
        assert len(await store.find_entries("s")) == len(ALIKE) - 1

    async def test_a_new_space_contains_nothing_of_a_removed_one(self, store: Store) -> None:
        await store.put_entries([entry("k", "tea", space="old", vector=[1.0], model="m")])
        await store.delete_entries("old")
        await store.put_entries([entry("k", "coffee", space="new", vector=[1.0, 0.0], model="m")])
        assert await found(store, "tea", "new") == []
        assert await found(store, "tea", "old") == []
        assert list(await store.search_vectors("new", [1.0], model="m")) == []

    async def test_words_of_other_spaces_do_not_affect_a_search(self, store: Store) -> None:
        await store.put_entries([entry("k", "tea"), entry("l", "cup")])
        before = await store.search_text("s", "tea cup")
        await store.put_entries([entry(str(n), "tea", space="t") for n in range(30)])
        assert await store.search_text("s", "tea cup") == before

    @pytest.mark.parametrize("seed", range(4))
    async def test_random_operations_keep_spaces_separate(
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
    """The space has exactly its own entries."""
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
    """A simple search, which is sufficient for these questions."""
    return {
        key
        for key, each in model.items()
        if any(
            word in each.text.casefold().replace("·", " ").split()
            or (not word.isascii() and word in each.text)
            for word in question.split()
        )
    }
