"""What is found out about a GGUF file before llama.cpp gets it."""

from __future__ import annotations

import random
import struct
from pathlib import Path

import pytest

from ekiden.core.errors import UserError
from ekiden.models.local.gguf import check_gguf, peek_gguf
from tests.support.tiny_gguf import header, metadata, shapes, write_tiny_gguf


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    return write_tiny_gguf(tmp_path / "tiny.gguf")


def test_a_complete_file_is_described(tiny: Path) -> None:
    info = check_gguf(tiny)
    assert (info.architecture, info.name) == ("llama", "Tiny Random")
    assert (info.quantization, info.context_length) == ("F32", 2048)
    assert info.size == tiny.stat().st_size
    assert set(info.control_tokens) == {"<|im_start|>", "<|im_end|>", "</s>", "<s>"}


def test_a_peek_returns_the_same_without_the_vocabulary(tiny: Path) -> None:
    info = peek_gguf(tiny)
    assert (info.name, info.quantization, info.context_length) == ("Tiny Random", "F32", 2048)
    assert info.control_tokens == ()


def test_a_missing_file_is_an_error_naming_it(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no model file .*gone\.gguf"):
        check_gguf(tmp_path / "gone.gguf")


def test_a_folder_is_no_model(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot be read"):
        check_gguf(tmp_path)


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (b"", "is empty"),
        (b"PK\x03\x04 a zip file", "not a GGUF file"),
        (b"GG", "ends in the middle"),
        (b"GGUF" + struct.pack("<I", 99), "version 99"),
        (b"GGUF" + struct.pack("<IQQ", 3, 1 << 60, 1), "millions"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 1), "ends in the middle"),
        (b"GGUF" + struct.pack("<IQQQ", 3, 0, 1, 1 << 50), "a text of"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 0), "what kind of model"),
    ],
)
def test_a_file_that_is_no_gguf_is_refused(tmp_path: Path, content: bytes, fault: str) -> None:
    path = tmp_path / "bad.gguf"
    path.write_bytes(content)
    with pytest.raises(UserError, match=fault) as caught:
        check_gguf(path)
    assert "bad.gguf" in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"general__architecture": "../etc"}, "what kind of model"),
        ({"llama__block_count": 0}, "block_count is 0"),
        ({"llama__embedding_length": None}, "embedding_length is None"),
        ({"llama__context_length": "long"}, "context_length is 'long'"),
        ({"llama__attention__head_count": 0}, "head_count is 0"),
        ({"llama__attention__head_count_kv": "two"}, "head_count_kv is 'two'"),
        ({"tokenizer__ggml__model": None}, "no vocabulary"),
        ({"tokenizer__ggml__tokens": None}, "vocabulary is empty"),
        ({"tokenizer__ggml__scores": [1.0]}, "differ in length"),
        ({"tokenizer__ggml__eos_token_id": 99_999}, "not a token"),
        ({"general__alignment": 3}, "power of two"),
    ],
)
def test_values_that_would_crash_the_library_are_refused(
    tmp_path: Path, changes: dict[str, str | int | None], fault: str
) -> None:
    path = write_tiny_gguf(tmp_path / "odd.gguf", **changes)
    with pytest.raises(UserError, match=fault):
        check_gguf(path)


def test_a_truncated_download_is_detected(tiny: Path) -> None:
    with tiny.open("r+b") as file:
        file.truncate(tiny.stat().st_size - 1000)
    with pytest.raises(UserError, match="cut off"):
        check_gguf(tiny)


@pytest.mark.parametrize(
    ("dimensions", "shape", "kind", "offset", "fault"),
    [
        (9, (1,), 0, 0, "9 dimensions"),
        (1, (0,), 0, 0, "a side of 0"),
        (1, (8,), 250, 0, "unknown type 250"),
        (1, (33,), 2, 0, "not whole blocks"),
        (1, (8,), 0, 5, "not aligned"),
        (2, (1 << 39, 1 << 39), 0, 0, "cut off"),
    ],
)
def test_invalid_tensors_are_refused(
    tmp_path: Path, dimensions: int, shape: tuple[int, ...], kind: int, offset: int, fault: str
) -> None:
    name = b"w"
    entry = struct.pack("<Q", len(name)) + name + struct.pack("<I", dimensions)
    entry += struct.pack(f"<{len(shape)}Q", *shape) + struct.pack("<IQ", kind, offset)
    path = tmp_path / "tensor.gguf"
    entries = header(metadata(zz=1), {})
    # The last entry is a number that ends in a byte that is not zero: what follows is padding.
    raw = bytearray(entries.rstrip(b"\0") + b"\0\0\0")
    raw[8:16] = struct.pack("<Q", 1)
    path.write_bytes(bytes(raw) + entry + b"\0" * 4096)
    with pytest.raises(UserError, match=fault):
        check_gguf(path)


def test_two_tensors_with_one_name_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "twice.gguf"
    raw = header(metadata(), shapes())
    path.write_bytes(raw.replace(b"blk.1.attn_k.weight", b"blk.1.attn_q.weight"))
    with pytest.raises(UserError, match="twice"):
        check_gguf(path)


def test_a_split_model_requires_all_of_its_files(tmp_path: Path) -> None:
    path = write_tiny_gguf(tmp_path / "big-00001-of-00002.gguf")
    with pytest.raises(UserError, match="big-00002-of-00002"):
        check_gguf(path)
    write_tiny_gguf(tmp_path / "big-00002-of-00002.gguf")
    assert check_gguf(path).architecture == "llama"


def test_a_mutated_header_raises_no_other_exception(tiny: Path, tmp_path: Path) -> None:
    whole = tiny.read_bytes()
    head = len(header(metadata(), shapes()))
    draw = random.Random(3)
    path = tmp_path / "mutated.gguf"
    refused = 0
    for _ in range(100):
        raw = bytearray(whole)
        for _ in range(draw.randint(1, 4)):
            raw[draw.randrange(head)] = draw.randrange(256)
        path.write_bytes(raw)
        try:
            check_gguf(path)
        except UserError:
            refused += 1
    assert refused > 20
