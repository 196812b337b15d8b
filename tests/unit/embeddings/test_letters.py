"""Vectors of the letters a text is made of."""

from __future__ import annotations

import numpy as np
import pytest

from ekiden.embeddings.local import HashingEmbedder


def _likeness(first: str, second: str) -> float:
    one, other = HashingEmbedder().embed([first, second])
    return float(one @ other)


def test_every_row_has_length_one_and_an_empty_text_is_zeros() -> None:
    vectors = HashingEmbedder(64).embed(["pay the bill", "", "?!", "订单"])
    assert vectors.shape == (4, 64)
    assert vectors.dtype == np.float32
    assert np.linalg.norm(vectors, axis=1).tolist() == pytest.approx([1, 0, 0, 1], abs=1e-5)


def test_vectors_are_the_same_on_every_machine() -> None:
    vector = HashingEmbedder(16).embed(["ab"])[0]
    assert np.flatnonzero(vector).tolist() == [5, 6, 10, 14]
    assert np.sign(vector[[5, 6, 10, 14]]).tolist() == [1, 1, -1, -1]


def test_texts_that_share_rare_words_are_similar() -> None:
    assert _likeness("error TS2304", "again that ts2304!") > _likeness(
        "error TS2304", "the weather"
    )


def test_chinese_texts_that_share_characters_are_similar() -> None:
    assert _likeness("我要退款", "退款怎么办") > _likeness("我要退款", "今天天气")


def test_lone_surrogates_and_huge_texts_are_embedded() -> None:
    vectors = HashingEmbedder().embed(["\ud800 word", "a b " * 1_000_000])
    assert np.isfinite(vectors).all()


def test_no_texts_give_no_rows() -> None:
    assert HashingEmbedder(8).embed([]).shape == (0, 8)
