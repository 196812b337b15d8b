"""Texts as pieces of words."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ekiden.core.errors import UserError
from ekiden.integrations.bert_encoder.encoder import WordPiece
from ekiden.integrations.bert_encoder.weights import MAX_TOKENS
from tests.support.cases import each_case
from tests.unit.embeddings.tiny_bert import PIECES

VOCABULARY = {piece: number for number, piece in enumerate(PIECES)}


def cut(text: str, **options: bool) -> list[str]:
    numbers = WordPiece(VOCABULARY, **options).tokens(text).ids
    assert (PIECES[numbers[0]], PIECES[numbers[-1]]) == ("[CLS]", "[SEP]")
    return [PIECES[number] for number in numbers[1:-1]]


@each_case(
    ("text", "pieces"),
    [
        ("Book a flight to Oslo!", "book a flight to os ##lo !"),
        ("unaffable bills", "un ##aff ##able bill ##s"),
        ("CAFÉ", "cafe"),
        ("cafe\u0301", "cafe"),
        ("don't", "don ' t"),
        ("天气天", "天 气 天"),
        ("pay天the", "pay 天 the"),
        ("pay\u3000\tthe\n bill", "pay the bill"),
        ("p\u200day t\x00he\ufffd b\ud800ill", "pay the bill"),
        ("xyz pay", "[UNK] pay"),
        ("🦆 ， pay", "[UNK] [UNK] pay"),
        ("[SEP]", "[UNK] [UNK] [UNK]"),
        ("a" * 101, "[UNK]"),
        ("", ""),
        (" \x00\n", ""),
    ],
)
def test_a_text_is_split_like_the_reference_tokenizer(text: str, pieces: str) -> None:
    assert cut(text) == pieces.split()


def test_a_cased_model_keeps_case_and_accents() -> None:
    assert cut("Cat cat é", lowercase=False) == ["Cat", "cat", "é"]
    assert cut("é", lowercase=False, strip_accents=True) == ["[UNK]"]
    assert cut("天气", split_han=False) == ["[UNK]"]


def test_a_long_text_is_truncated() -> None:
    words = WordPiece(VOCABULARY)
    assert len(words.tokens("pay the bill " * 100_000).ids) == MAX_TOKENS
    assert len(words.tokens("pay the bill " * 100, limit=10).ids) == 10


def test_the_share_of_unknown_and_continued_pieces_is_counted() -> None:
    words = WordPiece(VOCABULARY)
    assert words.tokens("pay the bill").foreign == 0
    assert words.tokens("天气 pay the").foreign == 0.5
    assert words.tokens("🦆").unknown == 1
    assert words.tokens("привет").foreign == 0
    assert words.tokens("").foreign == 0
    assert words.tokens("unaffable bill").continued == 0.5


def test_a_chinese_vocabulary_knows_chinese() -> None:
    han = {chr(0x4E00 + number): number + 10 for number in range(3_000)}
    assert WordPiece({**han, "[UNK]": 0, "[CLS]": 1, "[SEP]": 2}).tokens("一丁").foreign == 0


def test_the_vocabulary_is_read_from_a_list_or_the_tokenizer(tmp_path: Path) -> None:
    said = {"normalizer": {"lowercase": False}, "model": {"vocab": VOCABULARY}}
    (tmp_path / "tokenizer.json").write_text(json.dumps(said))
    assert WordPiece.from_folder(tmp_path).tokens("Cat").ids[1] == VOCABULARY["Cat"]
    (tmp_path / "vocab.txt").write_bytes("\r\n".join(PIECES).encode())
    (tmp_path / "tokenizer_config.json").write_text('{"do_lower_case": true}')
    assert WordPiece.from_folder(tmp_path).tokens("Cat").ids[1] == VOCABULARY["cat"]


@pytest.mark.parametrize(
    ("file", "content", "why"),
    [
        ("vocab.txt", b"one\ntwo", r"lacks \[UNK\], \[CLS\], \[SEP\]"),
        ("vocab.txt", b"\xff\xff", "not UTF-8"),
        ("tokenizer.json", b"{", "not JSON"),
        ("tokenizer.json", b"[]", "JSON object"),
        ("tokenizer.json", b"[" * 60_000, "not JSON"),
        ("tokenizer.json", b"{}", "no vocabulary"),
        ("tokenizer.json", b'{"model": {"type": "Unigram", "vocab": []}}', "Unigram"),
        ("tokenizer.json", b'{"model": {"vocab": {"a": "x"}}}', "no number"),
        ("tokenizer.json", b'{"model": {"vocab": {"a": -1}}}', "no number"),
        ("other", b"", "no vocabulary"),
    ],
)
def test_an_invalid_vocabulary_is_refused(
    tmp_path: Path, file: str, content: bytes, why: str
) -> None:
    (tmp_path / file).write_bytes(content)
    with pytest.raises(UserError, match=why):
        WordPiece.from_folder(tmp_path)


def test_an_unreadable_vocabulary_is_refused(tmp_path: Path) -> None:
    (tmp_path / "vocab.txt").mkdir()
    with pytest.raises(UserError, match="cannot be read"):
        WordPiece.from_folder(tmp_path)


def test_a_huge_vocabulary_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ekiden.integrations.bert_encoder.weights._MAX_BYTES", 2)
    (tmp_path / "vocab.txt").write_text("one")
    with pytest.raises(UserError, match="larger than"):
        WordPiece.from_folder(tmp_path)
