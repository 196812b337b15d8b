"""The words of a text, as every back end finds them.

A text is split here and never in a database, so that all of them find the same. Two texts that
look alike have the same words: case, width and other forms of one letter do not count, and
neither do the accents of Latin, Greek and Cyrillic letters (``cafe`` finds ``Café``). Marks that
make another letter or vowel in other scripts do count.

* A word of a script with spaces is found as a whole: letters, digits and their marks.
* Scripts that do not part words, and Korean, whose particles hang on to the word, are split into
  single characters and pairs of neighbours: ``退款`` is found in ``我要退款了``.
* An emoji or another picture is a word of its own, whatever its colour of skin.
* All other signs part words and are nothing themselves, so no question is a query language.
"""

from __future__ import annotations

import asyncio
import re
import unicodedata
from collections.abc import Mapping, Sequence
from math import log

LONGEST_WORD = 64
"""Of a longer one only so many characters count."""
MOST_ASKED = 256
"""Of a longer question only so many different words count."""
_LONGEST_CLUSTER = 8
_LONG_TEXT = 20_000
"""Longer ones are split beside the event loop."""

_ACCENTS = re.compile("[\u0300-\u036f]+")
_ASCII_WORD = re.compile("[a-z0-9]+")
_PIECE = re.compile("(?P<word>w[wm]*)|(?P<run>(?:um*)+)|(?P<flag>ff)|(?P<sign>[sf])")
_CLUSTER = re.compile("um*")
_UNSPACED = (
    (0x0E00, 0x0EFF),  # Thai, Lao
    (0x1000, 0x109F),  # Myanmar
    (0x1100, 0x11FF),  # Hangul
    (0x1780, 0x17FF),  # Khmer
    (0x2E80, 0x2FDF),  # Han radicals
    (0x3005, 0x3007),
    (0x3021, 0x3029),
    (0x3031, 0x3035),
    (0x3041, 0x318F),  # Hiragana, Katakana, Bopomofo, Hangul
    (0x31A0, 0x31BF),
    (0x31F0, 0x31FF),
    (0x3400, 0x4DBF),  # Han
    (0x4E00, 0x9FFF),
    (0xA960, 0xA97F),  # Hangul
    (0xA9E0, 0xA9FF),  # Myanmar
    (0xAA60, 0xAA7F),
    (0xAC00, 0xD7FF),  # Hangul
    (0xF900, 0xFAFF),  # Han
    (0x1B000, 0x1B16F),  # Kana
    (0x20000, 0x3FFFF),  # Han
)
_PICTURES = (0x1F000, 0x1FAFF)
"""Also those that this Python does not know yet."""
_FLAGS = (0x1F1E6, 0x1F1FF)
_SKINS = (0x1F3FB, 0x1F3FF)
_SELECTORS = (0xFE00, 0xFE0F)
_KEYCAP = 0x20E3


class _Kinds(dict[int, str]):
    """The kind of each character, found out when it is first seen."""

    def __missing__(self, code: int) -> str:
        kind = self[code] = _kind(code)
        return kind


_KINDS = _Kinds()


def words_of(text: str) -> dict[str, None]:
    """The different words, in the order in which they first come."""
    folded = _folded(text)
    if folded.isascii():
        return dict.fromkeys(word[:LONGEST_WORD] for word in _ASCII_WORD.findall(folded))
    found: dict[str, None] = {}
    kinds = folded.translate(_KINDS)
    for piece in _PIECE.finditer(kinds):
        begin, end = piece.span()
        if piece.lastgroup == "run":
            _add_run(found, folded, kinds, begin, end)
        else:
            found[folded[begin : min(end, begin + LONGEST_WORD)]] = None
    return found


async def words_of_all(texts: Sequence[str]) -> list[dict[str, None]]:
    """`words_of` each; the event loop goes on while long texts are split."""
    if sum(map(len, texts)) > _LONG_TEXT:
        return await asyncio.to_thread(lambda: [words_of(text) for text in texts])
    return [words_of(text) for text in texts]


def asked_words(question: str) -> list[str]:
    """The different words of a question, as far as they count."""
    return list(words_of(question[: MOST_ASKED * LONGEST_WORD]))[:MOST_ASKED]


def weights(counts: Mapping[str, int], texts: int) -> dict[str, int]:
    """What each word counts, of those that so many of the `texts` have: less the more have it.

    One that most have counts little, and one that none has as much as one that a single text has.
    """
    return {word: _weight(max(count, 1), texts) for word, count in counts.items()}


def _weight(count: int, texts: int) -> int:
    return max(round(1000 * log(1 + (texts - count + 0.5) / (count + 0.5))), 1)


def _folded(text: str) -> str:
    if text.isascii():
        return text.lower()
    folded = unicodedata.normalize("NFKD", unicodedata.normalize("NFKC", text).casefold())
    return unicodedata.normalize("NFC", _ACCENTS.sub("", folded))


def _add_run(found: dict[str, None], text: str, kinds: str, begin: int, end: int) -> None:
    """The characters of a run, each with its marks, and their pairs."""
    before = ""
    for cluster in _CLUSTER.finditer(kinds, begin, end):
        at, to = cluster.span()
        character = text[at : min(to, at + _LONGEST_CLUSTER)]
        found[character] = None
        if before:
            found[before + character] = None
        before = character


def _kind(code: int) -> str:
    """`w` of a word, `u` of a script without spaces, `m` a mark, `f` half of a flag, `s` a
    picture, or a space."""
    if _within(code, _FLAGS):
        return "f"
    if _within(code, _SKINS) or _within(code, _SELECTORS) or code == _KEYCAP:
        return " "
    category = unicodedata.category(chr(code))
    if category[0] == "M":
        return "m"
    if category[0] in "LN":
        return "u" if any(_within(code, block) for block in _UNSPACED) else "w"
    return "s" if category == "So" or _within(code, _PICTURES) else " "


def _within(code: int, block: tuple[int, int]) -> bool:
    return block[0] <= code <= block[1]
