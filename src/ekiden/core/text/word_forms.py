"""Unifies inflected forms of a word: crashes, crashed and crashing become crash.

A light stemmer that knows only endings, for English and similar languages in Latin letters, and for
languages in Cyrillic. It knows no words and does not detect the language: two forms are the same if
they have the same stem, and a stem alone means nothing. Words in other scripts, and those with a
digit, are unchanged.
"""

from __future__ import annotations

import re
from functools import lru_cache

_LATIN = re.compile(r"[a-zß-ɏ']+")
_CYRILLIC = re.compile(r"[а-ӿ]+")
_VOWEL = re.compile(r"[aeiouyà-æè-ïò-öø-ýā-ő]")
_SHORT = re.compile(r"[^aeiouy][aeiouy][^aeiouywx]")
"""What is left of such a word has lost an e: caring is of care, not of car."""
_CYRILLIC_ENDING = re.compile(
    r"(?:ами|ями|ого|его|ому|ему|ыми|ими|ов|ев|ей|ам|ям|ах|ях|ым|им|ом|ем|ой|ий|ый|ую|ая|ые|ых|их"
    r"|[аеиоуыэюяьй])$"
)
_WHOLE = frozenset({"news", "always", "lens", "does", "embed", "embeds"})


@lru_cache(maxsize=16_384)
def stem(word: str) -> str:
    """The common stem of the forms of `word`, which is in lower case."""
    if len(word) < 4 or word in _WHOLE:
        return word
    if _LATIN.fullmatch(word):
        return _without_vowel(_without_verb_ending(_without_plural(word)))
    if _CYRILLIC.fullmatch(word):
        shorter = _CYRILLIC_ENDING.sub("", word)
        return shorter if len(shorter) >= 4 else word
    return word


def _without_plural(word: str) -> str:
    word = word.removesuffix("'s").removesuffix("'")
    if word.endswith(("sses", "shes", "ches", "xes", "zes")):
        return word[:-2]
    if word.endswith("ies") and len(word) > 4:
        return f"{word[:-3]}y"
    if word.endswith("s") and not word.endswith(("ss", "us", "is")) and len(word) > 3:
        return word[:-1]
    if word.endswith(("ern", "eln")) and len(word) > 6:
        return word[:-1]
    return word[:-2] if word.endswith("en") and len(word) > 6 else word


def _without_verb_ending(word: str) -> str:
    if word.endswith("ied") and len(word) > 4:
        return f"{word[:-3]}y"
    for ending in ("ing", "ed"):
        left = word.removesuffix(ending)
        if left == word or len(left) < 3 or not _VOWEL.search(left) or word.endswith("eed"):
            continue
        if left[-1] == left[-2] and left[-1] not in "aeiou":
            # Doubled by the ending, as in running, but not in adding, passing or telling.
            own = len(left) == 3 or left[-1] in "sz" or (left[-1] == "l" and len(left) == 4)
            return left if own else left[:-1]
        return f"{left}e" if len(left) == 3 and _SHORT.fullmatch(left) else left
    return word


def _without_vowel(word: str) -> str:
    if word.endswith("e") and len(word) > 4:
        return word[:-1]
    return word[:-1] if word.endswith(("a", "o", "i")) and len(word) > 5 else word
