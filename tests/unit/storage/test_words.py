"""How texts are split into words."""

import asyncio
import threading

from hypothesis import given, strategies as st

from ekiden.storage.search import (
    MAX_QUERY_WORDS,
    MAX_WORD_LENGTH,
    query_words,
    weights,
    words_of,
    words_of_all,
)
from tests.support.cases import each_case


@each_case(
    ("text", "words"),
    [
        ("", []),
        ("Where is my parcel? MY parcel!", ["where", "is", "my", "parcel"]),
        ("don't a_b v2.0 A-42", ["don", "t", "a", "b", "v2", "0", "42"]),
        ("退款了", ["退", "款", "退款", "了", "款了"]),
        ("ok退款go", ["ok", "退", "款", "退款", "go"]),
        ("退，款", ["退", "款"]),
        ("お茶", ["お", "茶", "お茶"]),
        ("ｶﾞｽ", ["ガ", "ス", "ガス"]),
        ("서울에", ["서", "울", "서울", "에", "울에"]),
        ("서울".encode().decode(), ["서", "울", "서울"]),
        ("ก็ดี", ["ก็", "ดี", "ก็ดี"]),
        ("हिन्दी में", ["हिन्दी", "में"]),
        ("Café cafe\u0301 CAFE", ["cafe"]),
        ("Straße STRASSE", ["strasse"]),
        ("İstanbul", ["istanbul"]),
        ("ёлка Йод", ["елка", "иод"]),
        ("ΣΊΣΥΦΟΣ σίσυφος", ["σισυφοσ"]),
        ("ＡＢＣ ﬁn ①", ["abc", "fin", "1"]),
        ("👩‍👩‍👧‍👦", ["👩", "👧", "👦"]),
        ("👋🏽👋", ["👋"]),
        ("🇯🇵🇫🇷🇩", ["🇯🇵", "🇫🇷", "🇩"]),
        ("1️⃣ ❤️", ["1", "❤"]),
        ("a\x00b\ud83dc", ["a", "b", "c"]),
        ("* \" ' - : ( ) ^ ~ · ・ 。", []),
    ],
)
def test_a_text_is_split_into_words(text: str, words: list[str]) -> None:
    assert list(words_of(text)) == words


def test_an_emoji_unknown_to_python_is_a_word() -> None:
    assert list(words_of("new \U0001faff")) == ["new", "\U0001faff"]


def test_a_long_word_is_cut_to_its_beginning() -> None:
    assert list(words_of("a" * 1000)) == ["a" * MAX_WORD_LENGTH]
    assert list(words_of("é" + "a" * 1000)) == ["e" + "a" * (MAX_WORD_LENGTH - 1)]
    assert list(words_of("ö1" * 500)) == ["o1" * (MAX_WORD_LENGTH // 2)]
    assert list(words_of("д" * 1000)) == ["д" * MAX_WORD_LENGTH]
    (stacked,) = words_of("น" + "้" * 1000)
    assert len(stacked) < 10


def test_a_long_query_is_cut_to_its_first_words() -> None:
    words = query_words(" ".join(f"w{number}" for number in range(10_000)))
    assert words == [f"w{number}" for number in range(MAX_QUERY_WORDS)]
    assert query_words("tea tea Tea") == ["tea"]


def test_a_rarer_word_counts_more() -> None:
    found = weights({"all": 10_000, "most": 9_000, "rare": 2, "rarest": 1, "none": 0}, 10_000)
    assert found["none"] == found["rarest"] > found["rare"] > found["most"] > found["all"] > 0
    assert found["rarest"] > 50 * found["most"]


async def test_long_texts_are_split_in_a_thread() -> None:
    threads = set()

    class Text(str):
        __slots__ = ()

        def isascii(self) -> bool:
            threads.add(threading.get_ident())
            return True

    assert await words_of_all([Text("tea"), Text("cup")]) == [{"tea": None}, {"cup": None}]
    assert threads == {threading.get_ident()}
    threads.clear()
    (found,) = await words_of_all([Text("tea " * 50_000)])
    assert list(found) == ["tea"]
    assert threading.get_ident() not in threads
    assert asyncio.get_running_loop().is_running()


TEXTS = st.text(st.characters(), max_size=60)


@given(TEXTS)
def test_words_contain_no_separators_and_are_stable(text: str) -> None:
    for word in words_of(text):
        assert word
        assert not any(sign in word for sign in " \x00\"'*·:()-")
        assert len(word) <= MAX_WORD_LENGTH
        word.encode()
        assert word in words_of(word)


@given(TEXTS)
def test_case_and_unicode_form_do_not_change_the_words(text: str) -> None:
    import unicodedata

    for form in ("NFC", "NFD", "NFKC", "NFKD"):
        assert set(words_of(unicodedata.normalize(form, text))) == set(words_of(text))


@given(TEXTS, TEXTS)
def test_neighbouring_text_does_not_hide_words(text: str, beside: str) -> None:
    assert set(words_of(text)) <= set(words_of(f"{text} {beside}"))
    assert set(words_of(text)) <= set(words_of(f"{beside}\n{text}"))


HAN = st.text(st.characters(min_codepoint=0x4E00, max_codepoint=0x4E20), min_size=1, max_size=6)


@given(HAN, HAN, HAN)
def test_a_chinese_word_is_found_at_any_position(before: str, word: str, after: str) -> None:
    assert set(words_of(word)) <= set(words_of(before + word + after))
