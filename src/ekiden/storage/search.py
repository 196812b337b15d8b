"""Text search: the words of a text, and the order of results, alike in all back ends.

Texts are split into words here and never in a database, so that all back ends find the same. Case,
width, variant forms of a letter, and accents of Latin, Greek and Cyrillic letters are ignored
(``cafe`` finds ``Café``). Marks that make another letter or vowel in other scripts are kept.

* In scripts with spaces, a word is a run of letters, digits and their marks.
* Scripts without spaces, and Korean, which attaches particles to words, are split into single
  characters and pairs of neighbours: ``退款`` is found in ``我要退款了``.
* An emoji is a word of its own, whatever its skin tone.
* All other characters separate words, so a query has no special syntax.
"""

from __future__ import annotations

import asyncio
import re
import sys
import unicodedata
from array import array
from collections.abc import Collection, Mapping, Sequence
from math import hypot, isfinite, log
from operator import mul
from typing import NamedTuple

from ekiden.core.errors import UserError
from ekiden.storage.records import SearchEntry
from ekiden.storage.values import json_text


class CheckedEntry(NamedTuple):
    """A valid entry that shares no mutable value with the caller."""

    space: str
    key: str
    text: str
    body: str
    """JSON text."""
    model: str
    vector: array[float] | None
    """float32 values of Euclidean length 1, or all zeros."""

    @property
    def name(self) -> str:
        """The name in error messages."""
        return f"entry {self.key!r} of space {self.space!r}"


def checked_entries(entries: Sequence[SearchEntry]) -> list[CheckedEntry]:
    """The entries ordered by space and key; of several with the same space and key, the last.

    Raises the `UserError`s of `SearchStore.put_entries` that do not depend on stored entries.
    """
    checked: dict[tuple[str, str], CheckedEntry] = {}
    for entry in entries:
        checked[entry.space, entry.key] = _checked(entry)
    lengths: dict[tuple[str, str], int] = {}
    for each in checked.values():
        if each.vector is not None:
            length = lengths.setdefault((each.space, each.model), len(each.vector))
            if length != len(each.vector):
                raise wrong_length(each.name, each.model, len(each.vector), length)
    return [checked[at] for at in sorted(checked)]


def unit_vector(vector: Sequence[float], name: str) -> array[float]:
    """The vector as float32 values of Euclidean length 1, or all zeros. Raises `UserError` for
    values that are not finite numbers."""
    try:
        numbers = array("d", vector)
        size = hypot(*numbers)
    except (TypeError, ValueError, OverflowError) as exc:
        raise UserError(f"the vector of {name} has a value that is not a number: {exc}") from exc
    if not numbers:
        raise UserError(f"the vector of {name} is empty: leave it out, or give its numbers")
    if not isfinite(size):
        raise UserError(f"the vector of {name} has a value that is not a finite number")
    if size == 0.0 or abs(size - 1.0) < 1e-6:
        return array("f", numbers)
    return array("f", [number / size for number in numbers])


def to_bytes(vector: array[float]) -> bytes:
    """The vector as it is stored: little-endian float32."""
    if sys.byteorder == "little":
        return vector.tobytes()
    swapped = vector[:]
    swapped.byteswap()
    return swapped.tobytes()


def from_bytes(stored: bytes) -> tuple[float, ...]:
    """The inverse of `to_bytes`."""
    return tuple(_array(stored))


def wrong_length(name: str, model: str, length: int, known: int) -> UserError:
    """The error of a vector that has another length than the other vectors of its model."""
    return UserError(
        f"the vector of {name} has {length} numbers, but those of model {model!r} have {known}: "
        "name another model, or replace all of them"
    )


def is_valid_name(name: str) -> bool:
    """Whether a space or key can have this name."""
    if not isinstance(name, str) or not name:
        return False
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def valid_keys(keys: Collection[str]) -> list[str]:
    """The valid keys, in order and without duplicates."""
    if isinstance(keys, str):
        raise UserError(f"`keys` is a list of keys, not the text {keys[:40]!r}")
    return sorted({key for key in keys if is_valid_name(key)})


def check_after(after: str) -> str:
    """`after`. Raises `UserError` for text that cannot be compared with keys."""
    if after and not is_valid_name(after):
        raise UserError(f"no key can come after {after[:40]!r}: it is not valid text")
    return after


def cosines(vectors: Sequence[bytes], query: array[float]) -> list[float]:
    """The cosine of each vector and `query`, from -1 to 1; all have the same length.

    Cosines are rounded, so that the back ends and numpy order the results alike.
    """
    if not vectors:
        return []
    try:
        import numpy as np
    except ImportError:
        return [round(sum(map(mul, _array(each), query)), 6) for each in vectors]
    table = np.frombuffer(b"".join(vectors), dtype="<f4").reshape(len(vectors), len(query))
    near: list[float] = (table @ np.frombuffer(query, dtype=np.float32)).tolist()
    return [round(each, 6) for each in near]


def numpy_or_python() -> str:
    """The name of the implementation that `cosines` uses."""
    try:
        import numpy as np
    except ImportError:
        return "python"
    return f"numpy {np.__version__}"


def score_of(cosine: float) -> float:
    """The score of a hit, from 0 to 1."""
    return min(1.0, max(0.0, cosine))


def _checked(entry: SearchEntry) -> CheckedEntry:
    space, key, model = entry.space, entry.key, entry.model
    for what, name in (("space", space), ("key", key)):
        if not is_valid_name(name):
            raise UserError(f"an entry has the {what} {name!r}: it must be text, and not empty")
    place = f"entry {key!r} of space {space!r}"
    if not isinstance(entry.text, str):
        raise UserError(f"the text of {place} is not text, but {type(entry.text).__name__}")
    body = json_text(entry.body, "the body of entry {!r} of space {!r}", key, space)
    if entry.vector is None:
        return CheckedEntry(space, key, entry.text, body, "", None)
    if not is_valid_name(model):
        raise UserError(f"the vector of {place} has no `model`: name the embedder that made it")
    return CheckedEntry(space, key, entry.text, body, model, unit_vector(entry.vector, place))


def _array(stored: bytes) -> array[float]:
    vector = array("f", stored)
    if sys.byteorder != "little":
        vector.byteswap()
    return vector


MAX_WORD_LENGTH = 64
"""Longer words are cut off."""
MAX_QUERY_WORDS = 256
"""Further words of a query are ignored."""
_MAX_CLUSTER_LENGTH = 8
_LONG_TEXT = 20_000
"""Longer texts are split in a thread, so that they do not block the event loop."""

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
"""Code points of emoji, including those that this version of Python does not know."""
_FLAGS = (0x1F1E6, 0x1F1FF)
_SKINS = (0x1F3FB, 0x1F3FF)
_SELECTORS = (0xFE00, 0xFE0F)
_KEYCAP = 0x20E3


class _Kinds(dict[int, str]):
    """The kind of each character, computed at first use."""

    def __missing__(self, code: int) -> str:
        kind = self[code] = _kind(code)
        return kind


_KINDS = _Kinds()


def words_of(text: str) -> dict[str, None]:
    """The different words, in the order of their first occurrence."""
    folded = _folded(text)
    if folded.isascii():
        return dict.fromkeys(word[:MAX_WORD_LENGTH] for word in _ASCII_WORD.findall(folded))
    found: dict[str, None] = {}
    kinds = folded.translate(_KINDS)
    for piece in _PIECE.finditer(kinds):
        begin, end = piece.span()
        if piece.lastgroup == "run":
            _add_run(found, folded, kinds, begin, end)
        else:
            found[folded[begin : min(end, begin + MAX_WORD_LENGTH)]] = None
    return found


async def words_of_all(texts: Sequence[str]) -> list[dict[str, None]]:
    """`words_of` each text, without blocking the event loop."""
    if sum(map(len, texts)) > _LONG_TEXT:
        return await asyncio.to_thread(lambda: [words_of(text) for text in texts])
    return [words_of(text) for text in texts]


def query_words(query: str) -> list[str]:
    """The different words of a query, at most `MAX_QUERY_WORDS`."""
    return list(words_of(query[: MAX_QUERY_WORDS * MAX_WORD_LENGTH]))[:MAX_QUERY_WORDS]


def weights(counts: Mapping[str, int], texts: int) -> dict[str, int]:
    """The weight of each word: the more of the `texts` contain it, the smaller.

    `counts` has the number of texts with each word. A word in no text counts as much as a word in
    one text.
    """

    def weight(count: int) -> int:
        return max(round(1000 * log(1 + (texts - count + 0.5) / (count + 0.5))), 1)

    return {word: weight(max(count, 1)) for word, count in counts.items()}


def _folded(text: str) -> str:
    if text.isascii():
        return text.lower()
    folded = unicodedata.normalize("NFKD", unicodedata.normalize("NFKC", text).casefold())
    return unicodedata.normalize("NFC", _ACCENTS.sub("", folded))


def _add_run(found: dict[str, None], text: str, kinds: str, begin: int, end: int) -> None:
    """Add the characters of a run, each with its marks, and the pairs of neighbours."""
    before = ""
    for cluster in _CLUSTER.finditer(kinds, begin, end):
        at, to = cluster.span()
        character = text[at : min(to, at + _MAX_CLUSTER_LENGTH)]
        found[character] = None
        if before:
            found[before + character] = None
        before = character


def _kind(code: int) -> str:
    """The kind of a character: `w` part of a word, `u` a character of a script without spaces, `m`
    a mark, `f` half of a flag, `s` a picture, or a space for separators."""
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
