"""Files of tensors, and files that say they are."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ekiden.core.errors import UserError
from ekiden.integrations.bert_encoder.weights import SafeTensors
from tests.unit.embeddings.tiny_bert import safetensors, with_header

VALUES = np.array([[1.5, -2.0, 0.0], [0.25, 3.0, -0.5]], dtype=np.float32)


def opened(tmp_path: Path, content: bytes) -> SafeTensors:
    path = tmp_path / "model.safetensors"
    path.write_bytes(content)
    return SafeTensors(path)


def described(**said: Any) -> bytes:
    whole = {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24], **said}
    return with_header({"x": whole}, VALUES.tobytes())


def test_half_and_brain_floats_are_converted_to_single_floats(tmp_path: Path) -> None:
    brain = (VALUES.view(np.uint32) >> 16).astype(np.uint16)
    for kind, stored in (("F32", VALUES), ("F16", VALUES.astype(np.float16)), ("BF16", brain)):
        found = opened(tmp_path, safetensors({"x": stored}, kind)).read("x")
        assert found.dtype == np.float32
        assert found.tolist() == VALUES.tolist()


def test_other_types_are_ignored_and_empty_tensors_are_read(tmp_path: Path) -> None:
    assert "x" not in opened(tmp_path, safetensors({"x": np.arange(3)}, "I64"))
    assert opened(tmp_path, safetensors({"x": VALUES[:0]})).read("x").shape == (0, 3)


def test_the_mark_distinguishes_files(tmp_path: Path) -> None:
    first = opened(tmp_path, safetensors({"x": VALUES})).mark
    assert opened(tmp_path, safetensors({"x": VALUES})).mark == first
    assert opened(tmp_path, safetensors({"x": VALUES + 1})).mark != first


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "too short"),
        (b"\x01\x00", "too short"),
        (struct.pack("<Q", 2**63) + b"{}", "header is said to have"),
        (struct.pack("<Q", 100) + b"{}", "header is said to have"),
        (struct.pack("<Q", 2) + b"{]", "not JSON"),
        (struct.pack("<Q", 2) + b"\xff\xfe", "not JSON"),
        (struct.pack("<Q", 60_000) + b"[" * 60_000, "not JSON"),
        (with_header([1]), "not a list of tensors"),
        (with_header({"x": 1}), "does not describe x"),
        (with_header({"x": {"dtype": "F32"}}), "does not describe x"),
        (described(shape="23"), "does not describe x"),
        (described(shape=[2, -3]), "does not describe x"),
        (described(shape=[True, 6]), "does not describe x"),
        (described(shape=[1] * 9), "does not describe x"),
        (described(data_offsets=[0]), "does not describe x"),
        (described(data_offsets=[0, 2.5]), "does not describe x"),
        (described(data_offsets=[0, 25]), "beyond the end"),
        (described(data_offsets=[24, 0]), "beyond the end"),
        (described(data_offsets=[0, 2**60]), "does not describe x"),
        (described(shape=[3, 3]), "another size"),
        (described(shape=[2**40, 2**40]), "another size"),
    ],
)
def test_an_inconsistent_file_is_refused(tmp_path: Path, content: bytes, why: str) -> None:
    with pytest.raises(UserError, match=why) as raised:
        opened(tmp_path, content)
    assert "model.safetensors" in str(raised.value)


def test_a_missing_tensor_or_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no tensor y"):
        opened(tmp_path, safetensors({"x": VALUES})).read("y")
    with pytest.raises(UserError, match="cannot be read"):
        SafeTensors(tmp_path / "nothing")
    with pytest.raises(UserError, match="cannot be read"):
        SafeTensors(tmp_path)


def test_a_file_truncated_after_opening_is_an_error(tmp_path: Path) -> None:
    found = opened(tmp_path, safetensors({"x": VALUES}))
    (tmp_path / "model.safetensors").write_bytes(b"")
    with pytest.raises(UserError, match="cannot be read"):
        found.read("x")
