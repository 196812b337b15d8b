"""The WordPiece tokenizer of BERT-style encoders.

Text is split at white space, punctuation and Han characters. Each word is then split into the
longest tokens of the vocabulary. Tokens that continue a word begin with ``##``.
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

MAX_TOKENS = 128
MAX_CHARACTERS = 2_000
"""The number of characters of a text that are used. The rest of a longer text is ignored."""

_MAX_WORD = 100
"""A longer word is unknown, as in the training of the models."""
_MAX_BYTES = 64 * 2**20
_UNKNOWN, _FIRST, _LAST = "[UNK]", "[CLS]", "[SEP]"
_FIRST_OTHER = "\u0370"
"""The first character after the Latin scripts."""
_MANY_HAN = 3_000
"""A vocabulary with this many Han characters is for Chinese or Japanese."""
_HAN = (
    (0x4E00, 0x9FFF),
    (0x3400, 0x4DBF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2CEAF),
    (0xF900, 0xFAFF),
    (0x2F800, 0x2FA1F),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenIds:
    """The tokens of a text."""

    ids: tuple[int, ...]
    """The ids of the tokens in the vocabulary, including the tokens that mark the beginning and the
    end."""
    unknown: float
    """The share of tokens for words that are not in the vocabulary, from 0 to 1."""
    foreign: float
    """The share of single characters of scripts in which the vocabulary has no words, from 0 to
    1."""
    continued: float
    """The share of tokens that continue a word, from 0 to 1. The share is high for languages for
    which the vocabulary was not made."""


class WordPiece:
    """Splits texts into the tokens of a vocabulary.

    `lowercase` is for models without capital letters. `strip_accents` replaces é with e; `None`
    means the value of `lowercase`.
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
        self._word = lru_cache(maxsize=16_384)(self._tokens_of_word)

    @classmethod
    def from_folder(cls, folder: Path) -> WordPiece:
        """Read ``vocab.txt`` or ``tokenizer.json``, and ``tokenizer_config.json`` if it exists.

        Raises `UserError` if both are missing, or invalid.
        """
        config = read_json(folder / "tokenizer_config.json", missing={})
        tokenizer = read_json(folder / "tokenizer.json", missing={})
        model, normal = _part(tokenizer, "model"), _part(tokenizer, "normalizer")
        if (folder / "vocab.txt").exists():
            vocabulary = _read_vocabulary(folder / "vocab.txt")
        elif model:
            vocabulary = _vocabulary_of(folder / "tokenizer.json", model)
        else:
            raise UserError(f"{folder} has no vocabulary: neither vocab.txt nor tokenizer.json")
        lowercase = config.get("do_lower_case", normal.get("lowercase", True))
        strip = config.get("strip_accents", normal.get("strip_accents"))
        han = config.get("tokenize_chinese_chars", normal.get("handle_chinese_chars", True))
        try:
            return cls(
                vocabulary,
                lowercase=bool(lowercase),
                strip_accents=None if strip is None else bool(strip),
                split_han=bool(han),
            )
        except UserError as exc:
            raise UserError(f"{folder} cannot be used: {exc}") from exc

    def tokens(self, text: str, *, limit: int = MAX_TOKENS) -> TokenIds:
        """The first `limit` tokens of a text."""
        ids: list[int] = []
        unknown = foreign = words = 0
        for word in self.words(text):
            own = self._word(word)
            unknown += own.count(self._unknown)
            foreign += len(own) if self._is_foreign(word, len(own)) else 0
            ids += own
            words += 1
            if len(ids) >= limit - 2:
                break
        count = max(1, len(ids))
        return TokenIds(
            ids=(self._vocabulary[_FIRST], *ids[: limit - 2], self._vocabulary[_LAST]),
            unknown=unknown / count,
            foreign=foreign / count,
            continued=1 - max(1, words) / count,
        )

    def words(self, text: str) -> Iterator[str]:
        """The words and punctuation marks of a text. With `split_han`, each Han character is a word
        of its own."""
        clean = "".join(map(self._cleaned, text[:MAX_CHARACTERS]))
        if self._lowercase:
            clean = clean.lower()
        if self._strip:
            decomposed = unicodedata.normalize("NFD", clean)
            clean = "".join(each for each in decomposed if unicodedata.category(each) != "Mn")
        for chunk in clean.split():
            yield from _split_punctuation(chunk)

    def _cleaned(self, character: str) -> str:
        if "!" <= character <= "~":
            return character
        if character.isspace():
            return " "
        if character == "\ufffd" or unicodedata.category(character)[0] == "C":
            return ""
        return f" {character} " if self._split_han and _is_han(character) else character

    def _is_foreign(self, word: str, tokens: int) -> bool:
        """Whether a word of another script was split into single characters."""
        if _is_han(word[0]):
            return not self._has_han
        return word[0] >= _FIRST_OTHER and word.isalnum() and 2 * tokens > len(word)

    def _tokens_of_word(self, word: str) -> tuple[int, ...]:
        if len(word) > _MAX_WORD:
            return (self._unknown,)
        ids: list[int] = []
        start = 0
        while start < len(word):
            prefix = "##" if start else ""
            for end in range(len(word), start, -1):
                token = self._vocabulary.get(prefix + word[start:end])
                if token is not None:
                    ids.append(token)
                    start = end
                    break
            else:
                return (self._unknown,)
        return tuple(ids)


def read_json(path: Path, *, missing: dict[str, Any] | None = None) -> dict[str, Any]:
    """Read the JSON object in a file. Returns `missing` if the file does not exist. Raises
    `UserError` for an invalid file."""
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


def _read_vocabulary(path: Path) -> dict[str, int]:
    lines = _text(path).removesuffix("\n").split("\n")
    return {token.rstrip("\r"): number for number, token in enumerate(lines)}


def _vocabulary_of(path: Path, model: Mapping[str, Any]) -> dict[str, int]:
    kind, vocabulary = model.get("type", "WordPiece"), model.get("vocab")
    if kind != "WordPiece" or not isinstance(vocabulary, dict):
        raise UserError(f"{path} has a vocabulary of the kind {kind}; only WordPiece is known")
    if not all(type(number) is int and number >= 0 for number in vocabulary.values()):
        raise UserError(f"{path} has a vocabulary with pieces that have no number")
    return vocabulary


def _part(whole: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    part = whole.get(name)
    return part if isinstance(part, dict) else {}


def _split_punctuation(chunk: str) -> Iterator[str]:
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
