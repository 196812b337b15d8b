"""Texts as the numbers of pieces of words, the way encoders of BERT's kind were taught them.

Text is cut at white space, punctuation and Han characters; each word is then made of the longest
pieces that the vocabulary has, those after the first beginning with ``##``.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from ekiden.core.errors import UserError

MAX_PIECES = 128
MAX_CHARACTERS = 2_000
"""What comes after is not looked at."""

_MAX_WORD = 100
"""A longer word is unknown: the models were taught so."""
_MAX_BYTES = 64 * 2**20
_UNKNOWN, _FIRST, _LAST = "[UNK]", "[CLS]", "[SEP]"
_FIRST_OTHER = "\u0370"
"""From here on are scripts other than Latin."""
_MANY_HAN = 3_000
"""A vocabulary with so many Han characters is one of Chinese or Japanese."""
_HAN = (
    (0x4E00, 0x9FFF),
    (0x3400, 0x4DBF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2CEAF),
    (0xF900, 0xFAFF),
    (0x2F800, 0x2FA1F),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pieces:
    """A text as an encoder takes it."""

    numbers: tuple[int, ...]
    """With the marks of the beginning and the end."""
    unknown: float
    """How many of the pieces stand for words that the vocabulary does not have, 0 to 1."""
    foreign: float
    """How many are single characters of a script that it only has the letters of, 0 to 1."""
    broken: float
    """How many of the pieces only go on with a word, 0 to 1: many in a language that the
    vocabulary is not made for."""


class WordPiece:
    """Cuts texts with a vocabulary; `lowercase` if the model does not know capital letters.

    `strip_accents` makes é an e; if it is `None`, it is done where `lowercase` is.
    """

    def __init__(
        self,
        vocabulary: Mapping[str, int],
        *,
        lowercase: bool = True,
        strip_accents: bool | None = None,
        split_han: bool = True,
    ) -> None:
        missing = [mark for mark in (_UNKNOWN, _FIRST, _LAST) if mark not in vocabulary]
        if missing:
            raise UserError(f"the vocabulary lacks {', '.join(missing)}: it is not one of BERT's")
        self.size = max(vocabulary.values()) + 1
        self._vocabulary = vocabulary
        self._lowercase = lowercase
        self._strip = lowercase if strip_accents is None else strip_accents
        self._split_han = split_han
        self._unknown = vocabulary[_UNKNOWN]
        self._has_han = sum(len(each) == 1 and _is_han(each) for each in vocabulary) >= _MANY_HAN
        self._word = lru_cache(maxsize=16_384)(self._pieces_of_word)

    @classmethod
    def from_folder(cls, folder: Path) -> WordPiece:
        """From ``vocab.txt`` or ``tokenizer.json``, and ``tokenizer_config.json`` if it is there.

        Raises `UserError` if there is neither, or one that cannot be used.
        """
        said = read_json(folder / "tokenizer_config.json", missing={})
        whole = read_json(folder / "tokenizer.json", missing={})
        model, normal = _part(whole, "model"), _part(whole, "normalizer")
        if (folder / "vocab.txt").exists():
            vocabulary = _listed(folder / "vocab.txt")
        elif model:
            vocabulary = _in_tokenizer(folder / "tokenizer.json", model)
        else:
            raise UserError(f"{folder} has no vocabulary: neither vocab.txt nor tokenizer.json")
        lowercase = said.get("do_lower_case", normal.get("lowercase", True))
        strip = said.get("strip_accents", normal.get("strip_accents"))
        han = said.get("tokenize_chinese_chars", normal.get("handle_chinese_chars", True))
        try:
            return cls(
                vocabulary,
                lowercase=bool(lowercase),
                strip_accents=None if strip is None else bool(strip),
                split_han=bool(han),
            )
        except UserError as exc:
            raise UserError(f"{folder} cannot be used: {exc}") from exc

    def pieces(self, text: str, *, limit: int = MAX_PIECES) -> Pieces:
        """Of a text, `limit` at most; of one with nothing to see, the two marks alone."""
        found: list[int] = []
        unknown = foreign = words = 0
        for word in self.words(text):
            own = self._word(word)
            unknown += own.count(self._unknown)
            foreign += len(own) if self._is_foreign(word, len(own)) else 0
            found += own
            words += 1
            if len(found) >= limit - 2:
                break
        marked = (self._vocabulary[_FIRST], *found[: limit - 2], self._vocabulary[_LAST])
        count = max(1, len(found))
        return Pieces(
            numbers=marked,
            unknown=unknown / count,
            foreign=foreign / count,
            broken=1 - max(1, words) / count,
        )

    def words(self, text: str) -> Iterator[str]:
        """Words, marks of punctuation and, if it is so taught, single Han characters."""
        clean = "".join(map(self._cleaned, text[:MAX_CHARACTERS]))
        if self._lowercase:
            clean = clean.lower()
        if self._strip:
            apart = unicodedata.normalize("NFD", clean)
            clean = "".join(each for each in apart if unicodedata.category(each) != "Mn")
        for chunk in clean.split():
            yield from _without_punctuation(chunk)

    def _cleaned(self, character: str) -> str:
        if "!" <= character <= "~":
            return character
        if character.isspace():
            return " "
        if character == "\ufffd" or unicodedata.category(character)[0] == "C":
            return ""
        return f" {character} " if self._split_han and _is_han(character) else character

    def _is_foreign(self, word: str, pieces: int) -> bool:
        """Whether it fell into single characters of another script, which tell little."""
        if _is_han(word[0]):
            return not self._has_han
        return word[0] >= _FIRST_OTHER and word.isalnum() and 2 * pieces > len(word)

    def _pieces_of_word(self, word: str) -> tuple[int, ...]:
        if len(word) > _MAX_WORD:
            return (self._unknown,)
        found: list[int] = []
        start = 0
        while start < len(word):
            mark = "##" if start else ""
            for end in range(len(word), start, -1):
                number = self._vocabulary.get(mark + word[start:end])
                if number is not None:
                    found.append(number)
                    start = end
                    break
            else:
                return (self._unknown,)
        return tuple(found)


def read_json(path: Path, *, missing: dict[str, Any] | None = None) -> dict[str, Any]:
    """An object in a file, or `missing` if there is none; `UserError` for anything else."""
    if missing is not None and not path.exists():
        return missing
    try:
        found = json.loads(_text(path))
    except (ValueError, RecursionError) as exc:
        raise UserError(f"{path} is not JSON: {exc}") from exc
    if not isinstance(found, dict):
        raise UserError(f"{path} must hold a JSON object")
    return found


def _text(path: Path) -> str:
    try:
        if path.stat().st_size > _MAX_BYTES:
            raise UserError(f"{path} is larger than {_MAX_BYTES // 2**20} MB")
        return path.read_text("utf-8")
    except OSError as exc:
        raise UserError(f"{path} cannot be read: {exc.strerror or exc}") from exc
    except UnicodeDecodeError as exc:
        raise UserError(f"{path} is not UTF-8") from exc


def _listed(path: Path) -> dict[str, int]:
    lines = _text(path).removesuffix("\n").split("\n")
    return {piece.rstrip("\r"): number for number, piece in enumerate(lines)}


def _in_tokenizer(path: Path, model: Mapping[str, Any]) -> dict[str, int]:
    kind, vocabulary = model.get("type", "WordPiece"), model.get("vocab")
    if kind != "WordPiece" or not isinstance(vocabulary, dict):
        raise UserError(f"{path} has a vocabulary of the kind {kind}; only WordPiece is known")
    if not all(type(number) is int and number >= 0 for number in vocabulary.values()):
        raise UserError(f"{path} has a vocabulary with pieces that have no number")
    return vocabulary


def _part(whole: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    part = whole.get(name)
    return part if isinstance(part, dict) else {}


def _without_punctuation(chunk: str) -> Iterator[str]:
    if chunk.isalnum():
        yield chunk
        return
    start = 0
    for at, character in enumerate(chunk):
        if _is_punctuation(character):
            if at > start:
                yield chunk[start:at]
            yield character
            start = at + 1
    if start < len(chunk):
        yield chunk[start:]


def _is_punctuation(character: str) -> bool:
    if character.isascii():
        return "!" <= character <= "~" and not character.isalnum()
    return unicodedata.category(character)[0] == "P"


def _is_han(character: str) -> bool:
    point = ord(character)
    return point >= 0x3400 and any(first <= point <= last for first, last in _HAN)
