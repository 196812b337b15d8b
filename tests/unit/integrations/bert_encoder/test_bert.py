"""Encoders of BERT's kind from a folder."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from ekiden.core.errors import UserError
from ekiden.embeddings.base import second_encoder
from ekiden.integrations.bert_encoder import encoder as bert
from ekiden.integrations.bert_encoder.encoder import BertEmbedder
from tests.unit.embeddings import tiny_bert
from tests.unit.embeddings.tiny_bert import CONFIG, PIECES, safetensors, tensors, write

TEXTS = ["pay the bill", "book a flight to oslo!", "fly", "", "don't pay the bills", "天气"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write(tmp_path / "tiny")


def as_taught(folder: Path, text: str, pooling: str = "mean") -> np.ndarray:
    """The same written out plainly, in double precision, a text at a time."""
    found = {name: each.astype(np.float64) for name, each in tensors().items()}

    def dense(state: np.ndarray, name: str) -> np.ndarray:
        return np.asarray(state @ found[f"{name}.weight"].T + found[f"{name}.bias"])

    def norm(state: np.ndarray, name: str) -> np.ndarray:
        even = (state - state.mean(1, keepdims=True)) / state.std(1, keepdims=True)
        return np.asarray(even * found[f"{name}.weight"] + found[f"{name}.bias"])

    own = BertEmbedder(folder)._tokens.tokens(text).ids
    state = found["embeddings.word_embeddings.weight"][list(own)]
    state = state + found["embeddings.position_embeddings.weight"][: len(own)]
    state = norm(
        state + found["embeddings.token_type_embeddings.weight"][0], "embeddings.LayerNorm"
    )
    for number in range(2):
        at = f"encoder.layer.{number}."
        heads = []
        for columns in (slice(0, 4), slice(4, 8)):
            query, key, value = (
                dense(state, f"{at}attention.self.{part}")[:, columns]
                for part in ("query", "key", "value")
            )
            heed = np.exp(query @ key.T / 2)
            heads.append(heed / heed.sum(1, keepdims=True) @ value)
        taken = dense(np.hstack(heads), f"{at}attention.output.dense")
        state = norm(state + taken, f"{at}attention.output.LayerNorm")
        wide = dense(state, f"{at}intermediate.dense")
        wide = wide * (1 + np.vectorize(math.erf)(wide / math.sqrt(2))) / 2
        state = norm(state + dense(wide, f"{at}output.dense"), f"{at}output.LayerNorm")
    vector = state[0] if pooling == "cls" else state.mean(0)
    return np.asarray(vector / np.linalg.norm(vector))


@pytest.mark.parametrize("pooling", ["mean", "cls"])
def test_vectors_equal_those_of_a_direct_implementation(folder: Path, pooling: str) -> None:
    (folder / "1_Pooling").mkdir()
    said = {
        "pooling_mode_cls_token": pooling == "cls",
        "pooling_mode_mean_tokens": pooling != "cls",
    }
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(said))
    for text in ("pay the bill", "book a flight to oslo! don't"):
        found = BertEmbedder(folder).embed([text])[0]
        assert found == pytest.approx(as_taught(folder, text, pooling), abs=1e-5)


def test_rows_are_ordered_normalized_and_independent_of_each_other(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    embedder = BertEmbedder(folder)
    together = embedder.embed(TEXTS)
    assert together.shape == (len(TEXTS), 8)
    assert together.dtype == np.float32
    alone = np.vstack([embedder.embed([text]) for text in TEXTS])
    assert together == pytest.approx(alone, abs=1e-5)
    assert np.linalg.norm(together, axis=1) == pytest.approx([1, 1, 1, 0, 1, 1], abs=1e-5)
    monkeypatch.setattr(bert, "_BATCH_TOKENS", 12)
    assert BertEmbedder(folder).embed(TEXTS) == pytest.approx(together, abs=1e-5)


def test_the_same_weights_give_the_same_vectors_and_name(folder: Path, tmp_path: Path) -> None:
    again, other = write(tmp_path / "a" / "tiny"), write(tmp_path / "b" / "tiny", seed=2)
    assert (BertEmbedder(again).embed(TEXTS) == BertEmbedder(folder).embed(TEXTS)).all()
    assert BertEmbedder(again).name == BertEmbedder(folder).name
    assert BertEmbedder(other).name != BertEmbedder(folder).name
    assert BertEmbedder(write(tmp_path / "maker__tiny")).name.startswith("tiny/")


def test_no_texts_give_no_rows(folder: Path) -> None:
    assert BertEmbedder(folder).embed([]).shape == (0, 8)
    assert BertEmbedder(folder).knows([]).shape == (0,)


def test_only_the_beginning_of_a_long_text_is_embedded(folder: Path) -> None:
    long, cut = BertEmbedder(folder).embed(["pay the bill " * 9_000, "pay the bill " * 10])
    assert long == pytest.approx(cut, abs=1e-6)


def test_hostile_text_is_embedded(folder: Path) -> None:
    odd = ["\ud800", "🦆" * 3_000, "[CLS] [SEP]", "\x00", "a\u0301" * 500, "x" * 100_000]
    assert np.isfinite(BertEmbedder(folder).embed(odd)).all()


def test_threads_may_share_an_embedder(folder: Path) -> None:
    fresh = BertEmbedder(folder)
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda text: fresh.embed([text])[0], TEXTS * 4))
    expected = BertEmbedder(folder).embed(TEXTS * 4)
    assert np.stack(found) == pytest.approx(expected, abs=1e-5)


def test_knows_is_false_for_texts_outside_the_vocabulary(folder: Path) -> None:
    known = {
        "pay the bill": True,
        "pay the bill 🦆": True,
        "天气": False,
        "pay the bill, 天": False,
        "quux 🦆 pay": False,
        "unaffable": False,
        "": False,
    }
    assert BertEmbedder(folder).knows(list(known)).tolist() == list(known.values())


def test_prefixed_names_and_half_precision_tensors_are_read(folder: Path) -> None:
    plain = BertEmbedder(folder).embed(TEXTS)
    named = {f"bert.{name}": each for name, each in tensors().items()}
    (folder / "model.safetensors").write_bytes(safetensors(named))
    assert (BertEmbedder(folder).embed(TEXTS) == plain).all()
    halves = {name: each.astype(np.float16) for name, each in tensors().items()}
    (folder / "model.safetensors").write_bytes(safetensors(halves, "F16"))
    assert BertEmbedder(folder).embed(TEXTS) == pytest.approx(plain, abs=0.02)


def test_the_gelu_approximation_is_exact_enough() -> None:
    values = np.linspace(-12, 12, 4001, dtype=np.float32)
    exact = [each * (1 + math.erf(each / math.sqrt(2))) / 2 for each in values.tolist()]
    assert np.abs(bert._gelu(values) - exact).max() < 1e-6


def _config(**said: object) -> Callable[[Path], None]:
    def spoil(folder: Path) -> None:
        (folder / "config.json").write_text(json.dumps({**CONFIG, **said}))

    return spoil


def _pooling(text: str) -> Callable[[Path], None]:
    def spoil(folder: Path) -> None:
        (folder / "1_Pooling").mkdir()
        (folder / "1_Pooling" / "config.json").write_text(text)

    return spoil


def _without(name: str) -> Callable[[Path], None]:
    def spoil(folder: Path) -> None:
        found = tensors()
        del found[name]
        (folder / "model.safetensors").write_bytes(safetensors(found))

    return spoil


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (lambda folder: (folder / "config.json").unlink(), "no config.json"),
        (lambda folder: (folder / "config.json").write_text("{"), "not JSON"),
        (_config(model_type="roberta"), "model_type is 'roberta'"),
        (_config(hidden_act="relu"), "hidden_act is 'relu'"),
        (_config(position_embedding_type="relative_key"), "position_embedding_type"),
        (_config(hidden_size="8"), "hidden_size must be"),
        (_config(num_hidden_layers=10**9), "num_hidden_layers must be"),
        (_config(num_attention_heads=3), "cannot be divided"),
        (_config(layer_norm_eps="x"), "layer_norm_eps"),
        (_config(intermediate_size=32), "does not fit its config.json: .* is 16 × 8"),
        (_config(num_hidden_layers=3), "no tensor encoder.layer.2"),
        (_without("encoder.layer.1.output.dense.bias"), "no tensor encoder.layer.1.output"),
        (lambda folder: (folder / "vocab.txt").unlink(), "no vocabulary"),
        (
            lambda folder: (folder / "vocab.txt").write_text("\n".join([*PIECES, "x"]), "utf-8"),
            "does not fit its vocabulary",
        ),
        (lambda folder: (folder / "model.safetensors").unlink(), "cannot be read"),
        (lambda folder: (folder / "model.safetensors").write_bytes(b"PK"), "too short"),
        (_pooling('{"pooling_mode_max_tokens": true}'), "only the mean"),
        (_pooling("{}"), "only the mean"),
        (_pooling("no"), "not JSON"),
    ],
)
def test_an_unusable_folder_is_reported_before_weights_are_read(
    folder: Path, spoil: Callable[[Path], object], why: str
) -> None:
    spoil(folder)
    with pytest.raises(UserError, match=why):
        BertEmbedder(folder)


def test_weights_that_are_not_numbers_are_an_error(folder: Path) -> None:
    found = tensors()
    found["encoder.layer.1.output.dense.bias"][3] = np.nan
    (folder / "model.safetensors").write_bytes(safetensors(found))
    with pytest.raises(UserError, match="not finite"):
        BertEmbedder(folder).embed(["pay"])


def test_pooling_may_be_a_single_word(folder: Path) -> None:
    _pooling('{"pooling_mode": "cls"}')(folder)
    found = BertEmbedder(folder).embed(["pay the bill"])[0]
    assert found == pytest.approx(as_taught(folder, "pay the bill", "cls"), abs=1e-5)
    assert tiny_bert.CONFIG["hidden_size"] == len(found)


@pytest.mark.slow
def test_a_real_encoder_finds_similar_texts() -> None:
    encoder = second_encoder()
    if encoder is None:
        pytest.skip("this machine has no second encoder")
    near, far = "I would like to reserve a plane ticket", "the milk in the fridge is sour"
    first, second, third = encoder.embed(["book a flight", near, far])
    assert first @ second > 0.5 > first @ third
    assert encoder.knows([near, far, "预订航班", "ホテルを予約したい"]).tolist() == [
        True,
        True,
        False,
        False,
    ]
