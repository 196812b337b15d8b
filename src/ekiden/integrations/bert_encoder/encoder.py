"""Computes BERT-style sentence encoders with numpy.

The small sizes of all-MiniLM, gte, bge and e5 have this architecture. The texts of a batch are
concatenated without padding. The dense layers process one long row of tokens, and the attention
layers process texts of equal length together. So the vector of a text does not depend on the other
texts of the batch.

The texts are split into the tokens of a WordPiece vocabulary: at white space, punctuation and Han
characters, then each word into the longest tokens of the vocabulary. Tokens that continue a word
begin with ``##``.
"""

from __future__ import annotations

import threading
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from ekiden.core.errors import UserError
from ekiden.integrations.bert_encoder.weights import (
    MAX_TOKENS,
    Dense,
    EncoderWeights,
    Layer,
    Norm,
    SafeTensors,
    Shape,
    read_json,
    read_text,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray


Matrix: TypeAlias = "NDArray[np.float32]"

_MAX_UNKNOWN = 0.3
"""Above this share of unknown words, the encoder does not know the language of a text."""
_MAX_FOREIGN = 0.1
"""The limit for characters of another script. It is low: the Latin words in a text of another
script are often only names."""
_MAX_CONTINUED = 0.35
"""The limit for tokens that continue a word. One English request in a hundred is above it, and most
German and Spanish requests are."""
_BATCH_TOKENS = 1024


class BertEmbedder:
    """The encoder in `folder`. The folder has ``config.json``, ``model.safetensors``, a vocabulary
    in ``vocab.txt`` or ``tokenizer.json``, and the pooling mode in ``1_Pooling/config.json``.

    Raises `UserError` with the reason if the folder has no such encoder. The weights are loaded
    once, with the first text. For example::

        BertEmbedder(Path("all-MiniLM-L6-v2")).embed(["book a flight"])
    """

    def __init__(self, folder: Path) -> None:
        self._shape = Shape.from_folder(folder)
        self._tokens = WordPiece.from_folder(folder)
        self._file = SafeTensors(folder / "model.safetensors")
        EncoderWeights.check(self._file, self._shape, vocabulary=self._tokens.size)
        self.name = f"{folder.name.rpartition('__')[2]}/{self._file.mark}"
        self.dimensions = self._shape.width
        self._weights: EncoderWeights | None = None
        self._lock = threading.Lock()

    def embed(self, texts: Sequence[str]) -> Matrix:
        """See `Embedder.embed`. Only the first 126 tokens of a long text count."""
        vectors = np.zeros((len(texts), self.dimensions), dtype=np.float32)
        tokens = [self._tokens.tokens(text, limit=self._shape.limit).ids for text in texts]
        filled = [row for row, ids in enumerate(tokens) if len(ids) > 2]
        filled.sort(key=lambda row: len(tokens[row]))
        for rows in _batches(filled, tokens):
            vectors[rows] = self._encode([tokens[row] for row in rows])
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        vectors /= np.maximum(lengths, 1e-9)
        return vectors

    def knows(self, texts: Sequence[str]) -> NDArray[np.bool_]:
        """Return for each text whether most of its words are in the vocabulary.

        An English encoder also returns a vector for a Chinese text, but this vector is meaningless.
        """
        tokens = (self._tokens.tokens(text, limit=self._shape.limit) for text in texts)
        return np.array([_is_known(each) for each in tokens], dtype=np.bool_)

    def _load(self) -> EncoderWeights:
        with self._lock:
            if self._weights is None:
                self._weights = EncoderWeights.read(self._file, self._shape)
            return self._weights

    def _encode(self, texts: list[tuple[int, ...]]) -> Matrix:
        """The vectors of texts that are sorted by length."""
        weights = self._load()
        lengths = [len(text) for text in texts]
        ids = np.concatenate([np.array(text, dtype=np.intp) for text in texts])
        positions = np.concatenate([np.arange(length) for length in lengths])
        state = weights.words[ids]
        state += weights.positions[positions]
        state = _normalize(state, weights.norm, self._shape.epsilon)
        for layer in weights.layers:
            state = self._apply(layer, state, lengths)
        starts = np.cumsum([0, *lengths[:-1]])
        if self._shape.pooling == "cls":
            return np.asarray(state[starts], dtype=np.float32)
        sums = np.add.reduceat(state, starts, axis=0)
        return np.asarray(sums / np.array(lengths, dtype=np.float32)[:, None], dtype=np.float32)

    def _apply(self, layer: Layer, state: Matrix, lengths: list[int]) -> Matrix:
        epsilon = self._shape.epsilon
        attended = _attention(_dense(state, layer.qkv), lengths, self._shape.heads)
        attended = _dense(attended, layer.attention_output)
        attended += state
        attended = _normalize(attended, layer.attention_norm, epsilon)
        result = _dense(_gelu(_dense(attended, layer.intermediate)), layer.output)
        result += attended
        return _normalize(result, layer.output_norm, epsilon)


def _is_known(text: TokenIds) -> bool:
    return (
        len(text.ids) > 2
        and text.unknown <= _MAX_UNKNOWN
        and text.foreign <= _MAX_FOREIGN
        and text.continued <= _MAX_CONTINUED
    )


def _batches(rows: list[int], tokens: Sequence[tuple[int, ...]]) -> Iterator[list[int]]:
    batch: list[int] = []
    count = 0
    for row in rows:
        if batch and count + len(tokens[row]) > _BATCH_TOKENS:
            yield batch
            batch, count = [], 0
        batch.append(row)
        count += len(tokens[row])
    if batch:
        yield batch


def _dense(state: Matrix, dense: Dense) -> Matrix:
    result: Matrix = state @ dense.matrix
    result += dense.bias
    return result


def _attention(qkv: Matrix, lengths: list[int], heads: int) -> Matrix:
    """Multi-head attention within each text; `qkv` has the scaled queries, keys and values."""
    width = qkv.shape[1] // 3
    result = np.empty((len(qkv), width), dtype=np.float32)
    start = 0
    for length, group in groupby(lengths):
        count = sum(1 for _ in group)
        end = start + count * length
        parts = qkv[start:end].reshape(count, length, 3, heads, width // heads)
        query, key, value = np.ascontiguousarray(parts.transpose(2, 0, 3, 1, 4))
        scores = query @ key.swapaxes(-1, -2)
        scores -= scores.max(axis=-1, keepdims=True)  # Without this, `exp` could overflow.
        np.exp(scores, out=scores)
        scores /= scores.sum(axis=-1, keepdims=True)
        mixed = (scores @ value).transpose(0, 2, 1, 3)
        result[start:end] = mixed.reshape(end - start, width)
        start = end
    return result


def _normalize(state: Matrix, norm: Norm, epsilon: float) -> Matrix:
    state -= state.mean(axis=1, keepdims=True)
    variance = np.einsum("ij,ij->i", state, state)[:, None] / np.float32(state.shape[1])
    state /= np.sqrt(variance + np.float32(epsilon))
    state *= norm.scale
    state += norm.shift
    return state


_ERFC = tuple(
    np.float32(value / 2)
    for value in (1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592)
)
_ERFC_STEP = np.float32(0.3275911 / np.sqrt(2))


def _gelu(values: Matrix) -> Matrix:
    """The activation function GELU.

    numpy has no error function. This is the polynomial 7.1.26 of Abramowitz and Stegun, whose error
    is below 1e-7. All steps are in place, because temporary arrays would take most of the time.
    """
    size = np.abs(values)
    step = size * _ERFC_STEP
    step += 1
    np.reciprocal(step, out=step)
    tail = step * _ERFC[0]
    for factor in _ERFC[1:]:
        tail += factor
        tail *= step
    np.square(values, out=step)
    step *= np.float32(-0.5)
    np.exp(step, out=step)
    tail *= step
    tail *= size
    result: Matrix = np.maximum(values, 0)
    result -= tail
    return result


MAX_CHARACTERS = 2_000
"""The number of characters of a text that are used. The rest of a longer text is ignored."""

_MAX_WORD = 100
"""A longer word is unknown, as in the training of the models."""
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


def _read_vocabulary(path: Path) -> dict[str, int]:
    lines = read_text(path).removesuffix("\n").split("\n")
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
