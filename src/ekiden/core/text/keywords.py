"""Keyword normalization: the form in which texts are searched, and stems of inflected words."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from unicodedata import category, normalize

from ekiden.core.text.wording import lazy_pattern

# Two steps turn "is this keyword a word of the text" into "is this string a substring of that one",
# which one automaton answers for all keywords of all agents at once:
#
# 1. `folded` unifies text that looks alike: case, full-width and other compatibility forms,
#    typographic apostrophes and hyphens, invisible characters, kinds and amounts of white space.
# 2. `marked` puts a mark before and after every word. ``err`` becomes ``|err|``, which is not a
#    substring of ``|merry|``.
#
# Only scripts with spaces have words. In Han, kana, Hangul, Thai and similar scripts nothing is
# marked, so a keyword matches anywhere. Their characters belong to no word, so ``error`` is a whole
# word in ``出现error了``.


MARK = "\x1f"
"""The mark around words. The result of `folded` never contains the mark, because the mark counts as
white space."""


_UNSPACED = (
    "\u0e00-\u109f"  # Thai, Lao, Tibetan, Myanmar
    "\u1100-\u11ff\ua960-\ua97f\uac00-\ud7ff\u3130-\u318f"  # Hangul: particles follow directly
    "\u1780-\u17ff\u1950-\u19df\u1a20-\u1aaf\u1b00-\u1b7f\ua980-\ua9ff\uaa60-\uaadf"  # Khmer, Tai …
    "\u2e80-\u2fdf\u3005-\u3007\u3021-\u3029\u3031-\u312f\u31a0-\u31bf\u31f0-\u31ff"  # kana …
    "\u3400-\u4dbf\u4e00-\u9fff\ua000-\ua4cf\uf900-\ufaff"  # Han, Yi
    "\U0001aff0-\U0001b16f\U00020000-\U0003ffff"
)
"""Scripts without spaces between words, or with endings attached to them, as character ranges."""

_IS_UNSPACED = lazy_pattern(f"[{_UNSPACED}]")
_WORD = lazy_pattern(rf"[a-z](?:\+\+|#(?![^\W{_UNSPACED}]))|[^\W{_UNSPACED}]+")
"""A word: letters, digits and ``_``; or one letter with ``++`` or ``#``, so that the keyword C does
not match C++ and C#. For `marked`, combining marks are letters as well, unlike in ``\\w``."""
_ASCII_WORD = lazy_pattern(r"[a-z](?:\+\+|#(?!\w))|\w+", re.ASCII)
"""The same in ASCII text; `_WORD` takes long to compile."""

_ALIKE: dict[int, str | None] = {
    **dict.fromkeys(map(ord, "\u2018\u2019\u201b\u02bc\u00b4"), "'"),
    **dict.fromkeys(map(ord, "\u2010\u2011\u2012\u2013\u2212"), "-"),
    **dict.fromkeys(map(ord, "\u00ad\u200b\u200c\u200d\u2060\ufeff"), None),
    **dict.fromkeys(range(0xFE00, 0xFE10), None),
    **dict.fromkeys(range(0xE0100, 0xE01F0), None),
}
_MANY_MARKS = 30
"""No language has more combining marks in a row. The time for normalizing grows with the square of
their number, so further ones are removed."""


def folded(text: str) -> str:
    """Return `text` without the differences that keyword searches ignore. Accepts any string."""
    if text.isascii():
        return " ".join(text.lower().split())
    text = text.encode("utf-8", "replace").decode()  # A lone surrogate becomes a question mark.
    text = normalize("NFKC", normalize("NFKC", _thinned(text)).casefold())
    text = text.translate(_ALIKE).replace("i\u0307", "i")  # `casefold` makes this of İ.
    return " ".join(text.split())


def alike(text: str) -> str:
    """Return `text` normalized for substring search in any script: without differences of case and
    of compatibility forms. This function is ten times as fast as `folded`."""
    if text.isascii():
        return text.lower()
    return normalize("NFKC", normalize("NFKC", _thinned(text)).casefold())


def marked(text: str, form: Callable[[str], str] = str) -> str:
    """Return folded text with `MARK` around every word. Adjacent words share one mark.

    The function `form` changes every word, for example to its stem.
    """
    accents = {} if text.isascii() else {ord(c): "a" for c in set(text) if _is_accent(c)}
    if accents:
        pieces: list[str] = []
        end = 0
        for word in _WORD.finditer(text.translate(accents)):
            written = text[word.start() : word.end()]
            pieces += (text[end : word.start()], MARK, form(written), MARK)
            end = word.end()
        text = "".join((*pieces, text[end:]))
    else:
        words = _ASCII_WORD if text.isascii() else _WORD
        text = words.sub(lambda word: f"{MARK}{form(word[0])}{MARK}", text)
    return text.replace(MARK + MARK, MARK)


def opening(text: str, length: int) -> str:
    """The first `length` characters of `text`, without a partial last word."""
    head = text[:length]
    if len(text) > length and _is_letter(text[length]):
        end = length
        while end and _is_letter(head[end - 1]):
            end -= 1
        head = head[:end]
    return head


def _thinned(text: str) -> str:
    """`text` without combining marks beyond `_MANY_MARKS` in a row."""
    if len(text) < 1000:
        return text
    accents = "".join(sorted(each for each in set(text) if category(each)[0] == "M"))
    if not accents:
        return text
    run = re.escape(accents)
    return re.sub(f"([{run}]{{{_MANY_MARKS}}})[{run}]+", r"\1", text)


def _is_accent(character: str) -> bool:
    """Whether the character is a combining mark of a script with spaces."""
    return (
        character > "\u02ff" and category(character)[0] == "M" and not _IS_UNSPACED.match(character)
    )


def _is_letter(character: str) -> bool:
    return _is_accent(character) or bool(_WORD.match(character))


# The stemmer unifies inflected forms of a word: crashes, crashed and crashing become crash.
#
# It removes endings of English and similar languages in Latin letters, and of languages in
# Cyrillic. It has no dictionary and does not detect the language, so a stem need not be a word.
# Words in other scripts and words with a digit are unchanged.


_LATIN = lazy_pattern(r"[a-zß-ɏ']+")
_CYRILLIC = lazy_pattern(r"[а-ӿ]+")
_VOWEL = lazy_pattern(r"[aeiouyà-æè-ïò-öø-ýā-ő]")
_SHORT = lazy_pattern(r"[^aeiouy][aeiouy][^aeiouywx]")
"""A stem like this has lost a final e: caring belongs to care, not to car."""
_CYRILLIC_ENDING = lazy_pattern(
    r"(?:ами|ями|ого|его|ому|ему|ыми|ими|ов|ев|ей|ам|ям|ах|ях|ым|им|ом|ем|ой|ий|ый|ую|ая|ые|ых|их"
    r"|[аеиоуыэюяьй])$"
)
_WHOLE = frozenset({"news", "always", "lens", "does", "embed", "embeds"})


@lru_cache(maxsize=16_384)
def stem(word: str) -> str:
    """The stem of `word`, which must be in lower case."""
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
            # The ending doubled the letter in running, but not in adding, passing or telling.
            is_own = len(left) == 3 or left[-1] in "sz" or (left[-1] == "l" and len(left) == 4)
            return left if is_own else left[:-1]
        return f"{left}e" if len(left) == 3 and _SHORT.fullmatch(left) else left
    return word


def _without_vowel(word: str) -> str:
    if word.endswith("e") and len(word) > 4:
        return word[:-1]
    return word[:-1] if word.endswith(("a", "o", "i")) and len(word) > 5 else word
