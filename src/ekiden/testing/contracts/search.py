"""The contract of `SearchStore`: entries, and the search by words."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ekiden.core.errors import UserError
from ekiden.storage.base import SearchEntry, SearchHit, Store
from ekiden.testing.contracts.base import AWKWARD_TEXTS, StoreContractBase
from ekiden.testing.contracts.documents import NOT_JSON


def entry(key: str, text: str = "", space: str = "s", **fields: Any) -> SearchEntry:
    """An entry of space `s`."""
    return SearchEntry(space=space, key=key, text=text, **fields)


async def listed(store: Store, space: str = "s", **options: Any) -> list[str]:
    """The keys that `find_entries` returns."""
    return [each.key for each in await store.find_entries(space, **options)]


async def found(store: Store, query: str, space: str = "s", **options: Any) -> list[str]:
    """The keys that `search_text` returns."""
    return [each.entry.key for each in await store.search_text(space, query, **options)]


def scores(hits: Any) -> list[tuple[str, float]]:
    """Keys and scores, in order."""
    return [(hit.entry.key, round(hit.score, 4)) for hit in hits]


LONGEST_KEY = 500


class EntryContract(StoreContractBase):
    """Entries are stored, replaced, listed and removed."""

    async def test_an_entry_is_returned_as_it_was_put(self, store: Store, other: Store) -> None:
        body = {"a": [1, 2.5, None, {"b": True}], "texts": list(AWKWARD_TEXTS)}
        await store.put_entries([entry("k", "Tea 茶", body=body)])
        (back,) = await other.find_entries("s")
        assert (back.space, back.key, back.text, back.body) == ("s", "k", "Tea 茶", body)
        assert (back.vector, back.model) == (None, "")
        assert back.updated_at_us > 0

    async def test_any_text_can_be_stored(self, store: Store) -> None:
        await store.put_entries([entry(str(n), text) for n, text in enumerate(AWKWARD_TEXTS)])
        back = {each.key: each.text for each in await store.find_entries("s")}
        assert back == {str(n): text for n, text in enumerate(AWKWARD_TEXTS)}
        for text in AWKWARD_TEXTS:
            await store.search_text("s", text)

    @pytest.mark.parametrize("body", [None, 0, False, "", [], {}, "text", 1.5])
    async def test_an_entry_body_may_be_any_json(self, store: Store, body: Any) -> None:
        await store.put_entries([entry("k", body=body)])
        (back,) = await store.find_entries("s")
        assert back.body == body
        assert type(back.body) is type(body)

    async def test_later_changes_by_the_caller_are_not_stored(self, store: Store) -> None:
        body = {"list": [1]}
        await store.put_entries([entry("k", "tea", body=body)])
        body["list"].append(2)
        (back,) = await store.find_entries("s")
        back.body["list"].append(3)
        (hit,) = await store.search_text("s", "tea")
        assert hit.entry.body == {"list": [1]}

    async def test_an_entry_replaces_the_previous_one_with_its_key(
        self, store: Store, other: Store
    ) -> None:
        await store.put_entries([entry("k", "green tea", body=1)])
        await other.put_entries([entry("k", "black coffee", body=2)])
        (back,) = await store.find_entries("s")
        assert (back.text, back.body) == ("black coffee", 2)
        assert await found(store, "green tea") == []
        assert await found(store, "coffee") == ["k"]

    async def test_of_two_entries_with_one_key_in_one_call_the_last_is_stored(
        self, store: Store
    ) -> None:
        await store.put_entries([entry("k", "one"), entry("l", "x"), entry("k", "two")])
        assert [each.text for each in await store.find_entries("s")] == ["two", "x"]
        assert await found(store, "one") == []

    async def test_putting_an_empty_list_does_nothing(self, store: Store) -> None:
        await store.put_entries([])
        assert await listed(store) == []

    async def test_entries_are_listed_by_key_in_code_point_order(self, store: Store) -> None:
        keys = ["b", "B", "a", "é", "e", "e\u0301", "🏃", "_", "%", "a/1", "a/2", "\uffff"]
        await store.put_entries([entry(key, key) for key in keys])
        assert await listed(store) == sorted(keys)

    async def test_listing_honours_after_keys_and_limit(self, store: Store) -> None:
        await store.put_entries([entry(key) for key in "abcdef"])
        assert await listed(store, after="b") == ["c", "d", "e", "f"]
        assert await listed(store, after="b", limit=2) == ["c", "d"]
        assert await listed(store, after="z") == []
        assert await listed(store, keys=["e", "a", "z", "a", ""]) == ["a", "e"]
        assert await listed(store, keys=["e", "a", "c"], after="a", limit=1) == ["c"]
        assert await listed(store, keys=[]) == []
        assert await listed(store, limit=100_000) == list("abcdef")

    async def test_entries_are_found_by_many_keys(self, store: Store) -> None:
        keys = [f"{number:04}" for number in range(600)]
        await store.put_entries([entry(key, "tea") for key in keys])
        asked = [*keys[::2], *(f"no {number}" for number in range(400))]
        assert await listed(store, keys=asked, limit=1000) == keys[::2]
        assert await listed(store, keys=asked, limit=200) == keys[::2][:200]
        assert await store.delete_entries("s", keys=asked) == 300
        assert await listed(store, limit=1000) == keys[1::2]
        assert await found(store, "tea", limit=1000) == keys[1::2]

    async def test_a_deleted_entry_is_absent_from_all_searches(self, store: Store) -> None:
        await store.put_entries([entry(key, "tea", vector=[1.0, 0.0], model="m") for key in "abc"])
        assert await store.delete_entries("s", keys=["a", "b", "b", "z", "\ud800"]) == 2
        assert await listed(store) == ["c"]
        assert await found(store, "tea") == ["c"]
        hits = await store.search_vectors("s", [1.0, 0.0], model="m")
        assert [hit.entry.key for hit in hits] == ["c"]
        assert await store.delete_entries("s", keys=["a"]) == 0
        assert await store.delete_entries("s", keys=[]) == 0

    async def test_a_space_can_be_emptied_and_reused(self, store: Store, other: Store) -> None:
        await store.put_entries([entry(key, "tea") for key in "abc"])
        assert await store.delete_entries("s") == 3
        assert await store.delete_entries("s") == 0
        assert await listed(other) == []
        assert await found(other, "tea") == []
        await other.put_entries([entry("d", "tea")])
        assert await found(store, "tea") == ["d"]

    async def test_an_empty_space_returns_no_results(self, store: Store) -> None:
        for space in ("none", "", "\ud800", "a\x00b"):
            assert list(await store.find_entries(space)) == []
            assert list(await store.search_text(space, "tea")) == []
            assert list(await store.search_vectors(space, [1.0], model="m")) == []
            assert await store.delete_entries(space) == 0

    @pytest.mark.parametrize(
        "bad",
        [
            entry("", "x"),
            entry("k", "x", space=""),
            entry("\udc00", "x"),
            entry("k", "x", space="\ud800"),
            entry("k", "x", vector=[1.0]),
            entry("k", "x", vector=[1.0], model="\ud800"),
            entry("k", "x", vector=[], model="m"),
            entry("k", "x", vector=[1.0, float("nan")], model="m"),
            entry("k", "x", vector=[float("inf"), 1.0], model="m"),
            entry("k", "x", vector=["1", "2"], model="m"),
            entry("k", "x", vector=[1.0, 0.0, 0.0], model="known"),
            entry("k", None),  # type: ignore[arg-type]
            *(entry("k", "x", body={"deep": [0, value]}) for value in NOT_JSON.values()),
        ],
    )
    async def test_an_invalid_entry_is_refused_and_nothing_is_stored(
        self, store: Store, bad: SearchEntry
    ) -> None:
        await store.put_entries([entry("old", "tea", vector=[1.0, 0.0], model="known")])
        before = await store.find_entries("s")
        with pytest.raises(UserError) as caught:
            await store.put_entries([entry("a", "new"), bad, entry("z", "new")])
        assert caught.value.code == "user.error"
        assert await store.find_entries("s") == before
        assert await found(store, "tea") == ["old"]
        assert await found(store, "new") == []

    async def test_a_limit_below_one_is_refused(self, store: Store) -> None:
        with pytest.raises(UserError, match="`limit` must be 1 or more"):
            await store.find_entries("s", limit=0)
        with pytest.raises(UserError, match="`limit` must be 1 or more"):
            await store.search_text("s", "tea", limit=0)
        with pytest.raises(UserError, match="`limit` must be 1 or more"):
            await store.search_vectors("s", [1.0], model="m", limit=-1)

    async def test_keys_given_as_one_text_are_refused(self, store: Store) -> None:
        with pytest.raises(UserError, match="a list of keys"):
            await store.find_entries("s", keys="abc")
        with pytest.raises(UserError, match="a list of keys"):
            await store.delete_entries("s", keys="abc")
        with pytest.raises(UserError, match="no key can come after"):
            await store.find_entries("s", after="\ud800")

    async def test_entries_put_concurrently_are_all_stored(
        self, store: Store, other: Store
    ) -> None:
        await asyncio.gather(
            *(
                (store, other)[n % 2].put_entries(
                    [entry(f"{n:02}", f"tea {n}"), entry("all", f"cup {n}")]
                )
                for n in range(20)
            )
        )
        assert await listed(store) == [*(f"{n:02}" for n in range(20)), "all"]
        (last,) = await store.find_entries("s", keys=["all"])
        for n in range(20):
            hits = dict(scores(await store.search_text("s", f"cup {n}", limit=50)))
            assert hits["all"] == (1.0 if last.text == f"cup {n}" else 0.5)

    async def test_overlapping_concurrent_puts_do_not_deadlock(
        self, store: Store, other: Store
    ) -> None:
        spaces = ["a", "b", "c"]
        await asyncio.gather(
            *(
                (store, other)[n % 2].put_entries(
                    [
                        entry(key, f"tea {n}", space=space)
                        for space in spaces[:: 1 if n % 2 else -1]
                        for key in ("x", "y")
                    ]
                )
                for n in range(10)
            ),
            *((store, other)[n % 2].delete_entries("b") for n in range(4)),
        )
        for space in ("a", "c"):
            assert await listed(store, space) == ["x", "y"]


class WordContract(StoreContractBase):
    """Texts are found by their words, in every script."""

    async def test_a_word_is_found_without_regard_to_case(self, store: Store) -> None:
        await store.put_entries([entry("k", "Where is my PARCEL?"), entry("l", "nothing here")])
        (hit,) = await store.search_text("s", "parcel")
        assert isinstance(hit, SearchHit)
        assert (hit.entry.key, hit.entry.text, hit.score) == ("k", "Where is my PARCEL?", 1.0)
        assert hit.entry.vector is None
        assert hit.entry.updated_at_us > 0
        assert await found(store, "Parcel") == ["k"]
        assert await found(store, "parce") == []

    @pytest.mark.parametrize(
        ("text", "query"),
        [
            ("我要退款了，谢谢", "退款"),
            ("我要退款了，谢谢", "谢"),
            ("お茶を飲みたいです", "飲みたい"),
            ("新しいﾊﾟｿｺﾝを買う", "パソコン"),
            ("서울에서 만나요", "서울"),
            ("ฉันชอบดื่มน้ำชา", "น้ำชา"),
            ("ຂ້ອຍມັກນໍ້າຊາ", "ນໍ້າ"),
            ("ខ្ញុំចូលចិត្តតែ", "តែ"),
            ("ကျွန်တော် လက်ဖက်ရည် ကြိုက်တယ်", "လက်ဖက်"),
            ("हिन्दी में लिखा", "हिन्दी"),
            ("مرحبا بالعالم", "بالعالم"),
            ("שלום עולם", "עולם"),
            ("Straße in ΑΘΗΝΑ", "STRASSE αθηνα"),
            ("Crème brûlée, naïve", "creme NAÏVE"),
            ("creme", "crème"),
            ("cafe\u0301 au lait", "café"),
            ("Привет, Ёлка", "елка"),
            ("order A-42 was sent", "42"),
            ("日期２０２６年", "2026"),
            ("runs 🏃🏽‍♀️ home", "🏃"),
            ("🇯🇵 trip", "🇯🇵"),
            ("hand 👩‍👩‍👧‍👦 in hand", "👧"),
            ("ﬁnd the ＷＩＤＥ one", "find wide"),
            ("𠮷野家で食べる", "𠮷野家"),
        ],
    )
    async def test_words_of_many_scripts_are_found(
        self, store: Store, text: str, query: str
    ) -> None:
        await store.put_entries([entry("k", text), entry("l", "something else entirely")])
        assert scores(await store.search_text("s", query)) == [("k", 1.0)]

    async def test_a_word_with_the_same_characters_scores_lower(self, store: Store) -> None:
        texts = {"a": "退货付款", "b": "我要退款", "c": "茶", "d": "🇵🇯"}
        await store.put_entries([entry(key, text) for key, text in texts.items()])
        assert scores(await store.search_text("s", "退款")) == [("b", 1.0), ("a", 0.5351)]
        assert await found(store, "🇯🇵") == []

    async def test_the_score_is_the_share_of_matching_words_weighted_by_rarity(
        self, store: Store
    ) -> None:
        texts = {"a": "green tea", "b": "green cup", "c": "tea in a green cup", "d": "cold water"}
        await store.put_entries([entry(key, text) for key, text in texts.items()])
        hits = scores(await store.search_text("s", "green TEA cup tea"))
        assert hits == [("c", 1.0), ("a", 0.6024), ("b", 0.6024)]
        # A word in no text has the same weight as a word in one text.
        assert scores(await store.search_text("s", "water coffee")) == [("d", 0.5)]

    async def test_a_rare_word_counts_more_than_several_common_ones(self, store: Store) -> None:
        await store.put_entries([entry(f"a{n}", "this is the cat") for n in range(5)])
        await store.put_entries([entry("z", "dog")])
        hits = scores(await store.search_text("s", "is this the dog"))
        assert hits[0] == ("z", 0.6805)
        assert hits[1:] == [(f"a{n}", 0.3195) for n in range(5)]

    async def test_a_word_in_every_text_matches_with_a_low_score(self, store: Store) -> None:
        await store.put_entries([entry(f"{n:04}", f"the w{n}") for n in range(1200)])
        hits = await store.search_text("s", "the", limit=3)
        assert scores(hits) == [("0000", 1.0), ("0001", 1.0), ("0002", 1.0)]
        (first, second) = await store.search_text("s", "the w7", limit=2)
        assert (first.entry.key, first.score) == ("0007", 1.0)
        assert 0 < second.score < 0.001

    async def test_word_rarity_ignores_other_spaces(self, store: Store) -> None:
        await store.put_entries([entry(f"a{n}", "cat") for n in range(5)] + [entry("z", "dog")])
        await store.put_entries([entry(f"o{n}", "dog", space="t") for n in range(50)])
        assert (await found(store, "cat dog"))[0] == "z"

    async def test_at_most_the_limit_of_hits_is_returned_best_first(self, store: Store) -> None:
        texts = {f"{n:02}": " ".join(f"w{m}" for m in range(n + 1)) for n in range(20)}
        await store.put_entries([entry(key, text) for key, text in texts.items()])
        question = " ".join(f"w{m}" for m in range(20))
        hits = await store.search_text("s", question, limit=5)
        assert [hit.entry.key for hit in hits] == ["19", "18", "17", "16", "15"]
        everything = [hit.score for hit in await store.search_text("s", question, limit=1000)]
        assert everything == sorted(everything, reverse=True)
        assert len(everything) == 20
        assert all(0 < score <= 1 for score in everything)
        assert len(await store.search_text("s", "w0")) == 10

    @pytest.mark.parametrize("query", ["", " ", "?!", "*", '""', "-", ":", "\x00", "\ud83d", "ー^"])
    async def test_a_query_without_words_finds_nothing(self, store: Store, query: str) -> None:
        await store.put_entries([entry("k", "tea"), entry("l", "?! * -")])
        assert await found(store, query) == []

    @pytest.mark.parametrize(
        "query",
        [
            'tea"',
            '"tea',
            "tea*",
            "-tea",
            "words:tea",
            "tea:*",
            "^tea",
            "(tea",
            "tea)",
            "{tea}",
            "tea;--",
            "tea'",
            "tea & | !",
            "tea <->",
            "te\x00a tea",
            "\ud83dtea",
            "tea · 1·tea",
            "%tea_",
            "\\tea",
            "$1 ? ?1 tea",
        ],
    )
    async def test_punctuation_in_a_query_is_ignored(self, store: Store, query: str) -> None:
        await store.put_entries([entry("k", "green tea"), entry("l", "green")])
        assert (await found(store, query))[:1] == ["k"]
        assert "l" not in await found(store, query)

    async def test_operators_in_a_query_are_plain_words(self, store: Store) -> None:
        await store.put_entries([entry("k", "green tea"), entry("l", "not near and or")])
        assert await found(store, "tea AND coffee") == ["k", "l"]
        assert await found(store, "NEAR") == ["l"]
        assert await found(store, "tea NOT green") == ["k", "l"]
        assert await found(store, "NEAR(green tea, 2)") == ["k", "l"]

    async def test_long_texts_are_searchable(self, store: Store) -> None:
        latin = " ".join(f"word{number}" for number in range(100_000))
        han = "".join(chr(0x4E00 + number * 7919 % 20_000) for number in range(330_000))
        await store.put_entries([entry("latin", latin), entry("han", han), entry("k", "tea")])
        assert await found(store, "word99999") == ["latin"]
        assert await found(store, han[200_000:200_004]) == ["han"]
        (back,) = await store.find_entries("s", keys=["han"])
        assert back.text == han
        await store.put_entries([entry("latin", "tea"), entry("han", "tea")])
        assert await found(store, "word99999") == []
        assert await found(store, "tea") == ["han", "k", "latin"]

    async def test_extremely_long_words_and_queries_are_accepted(self, store: Store) -> None:
        await store.put_entries(
            [entry("k", "a" * 1_000_000), entry("l", "e\u0330" * 5000), entry("m", "น" + "้" * 9000)]
        )
        assert await found(store, "a" * 1_000_000) == ["k"]
        assert await found(store, "tea " * 300_000) == []
        many = " ".join(f"w{number}" for number in range(100_000))
        assert await found(store, many) == []
        assert await listed(store) == ["k", "l", "m"]

    async def test_long_keys_and_spaces_stay_distinct(self, store: Store) -> None:
        long = "k" * LONGEST_KEY
        await store.put_entries([entry(long, "tea", space=long), entry(f"{long}2", "tea")])
        assert await found(store, "tea", long) == [long]
        assert await found(store, "tea") == [f"{long}2"]
