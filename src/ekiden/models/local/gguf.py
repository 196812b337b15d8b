"""Checks GGUF files before llama.cpp loads them, because a damaged file can crash the whole
process."""

from __future__ import annotations

import mmap
import re
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from ekiden.core.errors import UserError

_MAGIC = b"GGUF"
_VERSIONS = (2, 3)
_MOST_ENTRIES = 1_000_000
_LONGEST_KEY = 65_535
_LONGEST_TEXT = 64 << 20
_MOST_DIMENSIONS = 4
_STRING, _ARRAY = 8, 9
_CONTROL = 3
"""The type of control tokens, such as the end of a turn."""

_SCALARS: dict[int, struct.Struct] = {
    0: struct.Struct("<B"),
    1: struct.Struct("<b"),
    2: struct.Struct("<H"),
    3: struct.Struct("<h"),
    4: struct.Struct("<I"),
    5: struct.Struct("<i"),
    6: struct.Struct("<f"),
    7: struct.Struct("<?"),
    10: struct.Struct("<Q"),
    11: struct.Struct("<q"),
    12: struct.Struct("<d"),
}

_BLOCKS: dict[int, tuple[int, int]] = {
    0: (1, 4), 1: (1, 2), 2: (32, 18), 3: (32, 20), 6: (32, 22), 7: (32, 24), 8: (32, 34),
    9: (32, 40), 10: (256, 84), 11: (256, 110), 12: (256, 144), 13: (256, 176), 14: (256, 210),
    15: (256, 292), 16: (256, 66), 17: (256, 74), 18: (256, 98), 19: (256, 50), 20: (32, 18),
    21: (256, 110), 22: (256, 82), 23: (256, 136), 24: (1, 1), 25: (1, 2), 26: (1, 4), 27: (1, 8),
    28: (1, 8), 29: (256, 56), 30: (1, 2), 34: (256, 54), 35: (256, 66), 39: (32, 17),
    40: (64, 36), 41: (128, 18),
}  # fmt: skip
"""For every type of tensor: the numbers in a block, and the bytes of a block."""

_FILE_TYPES = {
    0: "F32", 1: "F16", 2: "Q4_0", 3: "Q4_1", 7: "Q8_0", 8: "Q5_0", 9: "Q5_1", 10: "Q2_K",
    11: "Q3_K_S", 12: "Q3_K_M", 13: "Q3_K_L", 14: "Q4_K_S", 15: "Q4_K_M", 16: "Q5_K_S",
    17: "Q5_K_M", 18: "Q6_K", 19: "IQ2_XXS", 20: "IQ2_XS", 21: "Q2_K_S", 22: "IQ3_XS",
    23: "IQ3_XXS", 24: "IQ1_S", 25: "IQ4_NL", 26: "IQ3_S", 27: "IQ3_M", 28: "IQ2_S", 29: "IQ2_M",
    30: "IQ4_XS", 31: "IQ1_M", 32: "BF16", 36: "TQ1_0", 37: "TQ2_0", 38: "MXFP4", 39: "NVFP4",
    40: "Q1_0",
}  # fmt: skip

_POSITIVE = ("block_count", "embedding_length", "context_length")
_SPLIT = re.compile(r"(?P<stem>.+)-(?P<number>\d{5})-of-(?P<count>\d{5})\.gguf")


@dataclass(frozen=True, slots=True, kw_only=True)
class GgufInfo:
    """The facts in the header of a GGUF file."""

    path: Path
    size: int
    architecture: str
    name: str | None = None
    quantization: str | None = None
    """The quantization, such as ``Q4_K_M``; `None` if it is unknown."""
    context_length: int | None = None
    """The context length with which the model was trained, in tokens."""
    control_tokens: tuple[str, ...] = field(default=(), repr=False)
    """The texts of control tokens, such as ``<|im_end|>``; only `check_gguf` sets them."""


class _Damaged(Exception):
    """The file is damaged; the message says how."""


def peek_gguf(path: Path) -> GgufInfo:
    """Read the facts at the beginning of the file. This takes about a millisecond.

    Raises `UserError` for a file that is missing or is not a GGUF model.
    """
    with _opened(path) as (data, size):
        reader = _Reader(data, size)
        reader.header()
        return _info(path, size, reader.metadata(until="tokenizer."))


def check_gguf(path: Path) -> GgufInfo:
    """Check all values in the file that llama.cpp does not check, and return the facts of the file.

    Every length, count and offset must be inside the file, and the sizes of the network must be
    valid. The weights themselves are not read. Raises `UserError` with the fault.
    """
    with _opened(path) as (data, size):
        reader = _Reader(data, size)
        tensors = reader.header()
        metadata = reader.metadata()
        info = _info(path, size, metadata)
        _check_shape(info.architecture, metadata)
        _check_vocabulary(metadata)
        reader.check_tensors(tensors, _alignment(metadata))
    _check_siblings(path)
    return info


@contextmanager
def _opened(path: Path) -> Iterator[tuple[mmap.mmap, int]]:
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            yield data, len(data)
    except FileNotFoundError as exc:
        raise UserError(f"there is no model file {path}") from exc
    except _Damaged as exc:
        raise UserError(
            f"{path} cannot be used as a model: {exc}; get the file again, or name another one"
        ) from exc
    except ValueError as exc:
        raise UserError(f"{path} cannot be used as a model: it is empty") from exc
    except OSError as exc:
        raise UserError(f"{path} cannot be read: {exc.strerror or exc}") from exc


class _Reader:
    """Reads a file from its beginning, and never beyond its end."""

    def __init__(self, data: mmap.mmap, size: int) -> None:
        self._data, self._size, self._at = data, size, 0
        self._entries = 0

    def header(self) -> int:
        """Read up to the metadata; returns the number of tensors."""
        if self._take(4) != _MAGIC:
            raise _Damaged("it is not a GGUF file")
        version = self._number(4)
        if version not in _VERSIONS:
            raise _Damaged(f"it has GGUF version {version}, known are 2 and 3")
        tensors, self._entries = self._number(8), self._number(8)
        if max(tensors, self._entries) > _MOST_ENTRIES:
            raise _Damaged("it claims to have millions of entries")
        return tensors

    def metadata(self, until: str | None = None) -> dict[str, Any]:
        """The entries by key, up to the first key that begins with `until`."""
        found: dict[str, Any] = {}
        for _ in range(self._entries):
            key = self._text(_LONGEST_KEY)
            if until is not None and key.startswith(until):
                break
            if key in found:
                raise _Damaged(f"it has {key} twice")
            found[key] = self._value(self._number(4))
        return found

    def check_tensors(self, count: int, alignment: int) -> None:
        names: set[str] = set()
        spans: list[tuple[int, int]] = []
        for _ in range(count):
            name = self._text(_LONGEST_KEY)
            if name in names or not name:
                raise _Damaged(f"it has the tensor {name!r} twice or without a name")
            names.add(name)
            bytes_needed = self._tensor_bytes(name)
            offset = self._number(8)
            if offset % alignment:
                raise _Damaged(f"its tensor {name} is not aligned")
            spans.append((offset, offset + bytes_needed))
        start = -(-self._at // alignment) * alignment
        if spans and start + max(end for _, end in spans) > self._size:
            raise _Damaged("it is cut off: its tensors end beyond the end of the file")
        if any(before[1] > after[0] for before, after in pairwise(sorted(spans))):
            raise _Damaged("its tensors overlap")

    def _tensor_bytes(self, name: str) -> int:
        dimensions = self._number(4)
        if not 1 <= dimensions <= _MOST_DIMENSIONS:
            raise _Damaged(f"its tensor {name} has {dimensions} dimensions")
        shape = [self._number(8) for _ in range(dimensions)]
        kind = self._number(4)
        if kind not in _BLOCKS:
            raise _Damaged(f"its tensor {name} has the unknown type {kind}")
        numbers = 1
        for length in shape:
            if not 0 < length < 1 << 40:
                raise _Damaged(f"its tensor {name} has a side of {length}")
            numbers *= length
        in_block, block_bytes = _BLOCKS[kind]
        if shape[0] % in_block:
            raise _Damaged(f"the rows of its tensor {name} are not whole blocks")
        return numbers // in_block * block_bytes

    def _take(self, length: int) -> bytes:
        end = self._at + length
        if end > self._size:
            raise _Damaged("it ends in the middle of its header")
        piece = self._data[self._at : end]
        self._at = end
        return piece

    def _number(self, length: int) -> int:
        return int.from_bytes(self._take(length), "little")

    def _text(self, longest: int = _LONGEST_TEXT) -> str:
        length = self._number(8)
        if length > longest:
            raise _Damaged(f"it has a text of {length} bytes in its header")
        return self._take(length).decode("utf-8", errors="replace")

    def _value(self, kind: int) -> Any:
        if kind == _STRING:
            return self._text()
        if kind == _ARRAY:
            return self._array()
        return self._scalar(kind)

    def _scalar(self, kind: int) -> Any:
        form = _SCALARS.get(kind)
        if form is None:
            raise _Damaged(f"it has metadata of the unknown type {kind}")
        return form.unpack(self._take(form.size))[0]

    def _array(self) -> list[Any]:
        kind, length = self._number(4), self._number(8)
        if kind == _ARRAY:
            raise _Damaged("it has an array of arrays in its metadata")
        form = _SCALARS.get(kind)
        smallest = form.size if form else 8
        if length * smallest > self._size - self._at:
            raise _Damaged("it has an array that is longer than the file")
        if form:
            return list(struct.unpack(f"<{length}{form.format[1]}", self._take(length * form.size)))
        if kind != _STRING:
            raise _Damaged(f"it has metadata of the unknown type {kind}")
        read: Callable[[], str] = self._text
        return [read() for _ in range(length)]


def _info(path: Path, size: int, metadata: dict[str, Any]) -> GgufInfo:
    architecture = metadata.get("general.architecture")
    if not isinstance(architecture, str) or not re.fullmatch(r"[a-z0-9][a-z0-9._-]*", architecture):
        raise _Damaged("it does not say what kind of model it is")
    name = metadata.get("general.name")
    file_type = metadata.get("general.file_type")
    context = metadata.get(f"{architecture}.context_length")
    return GgufInfo(
        path=path,
        size=size,
        architecture=architecture,
        name=name if isinstance(name, str) and name else None,
        quantization=_FILE_TYPES.get(file_type) if isinstance(file_type, int) else None,
        context_length=context if isinstance(context, int) else None,
        control_tokens=_control_tokens(metadata),
    )


def _control_tokens(metadata: dict[str, Any]) -> tuple[str, ...]:
    tokens = metadata.get("tokenizer.ggml.tokens")
    types = metadata.get("tokenizer.ggml.token_type")
    if not (isinstance(tokens, list) and isinstance(types, list)):
        return ()
    found = (
        token
        for token, kind in zip(tokens, types, strict=False)
        if kind == _CONTROL and isinstance(token, str) and len(token) > 1
    )
    return tuple(sorted(found, key=lambda token: (-len(token), token)))


def _check_shape(architecture: str, metadata: dict[str, Any]) -> None:
    for key in _POSITIVE:
        value = metadata.get(f"{architecture}.{key}")
        if not isinstance(value, int) or isinstance(value, bool) or not 0 < value < 1 << 31:
            raise _Damaged(f"its {architecture}.{key} is {value!r}, not a positive number")
    for key in ("attention.head_count", "attention.head_count_kv"):
        found = metadata.get(f"{architecture}.{key}")
        for value in found if isinstance(found, list) else [found]:
            if value is not None and not (isinstance(value, int) and 0 <= value < 1 << 20):
                raise _Damaged(f"its {architecture}.{key} is {value!r}")
    heads = metadata.get(f"{architecture}.attention.head_count")
    if isinstance(heads, int) and heads < 1:
        raise _Damaged(f"its {architecture}.attention.head_count is 0")


def _check_vocabulary(metadata: dict[str, Any]) -> None:
    if not isinstance(metadata.get("tokenizer.ggml.model"), str):
        raise _Damaged("it has no vocabulary")
    tokens = metadata.get("tokenizer.ggml.tokens")
    if not isinstance(tokens, list) or not tokens or not all(isinstance(t, str) for t in tokens):
        raise _Damaged("its vocabulary is empty")
    for key in ("token_type", "scores"):
        other = metadata.get(f"tokenizer.ggml.{key}")
        if other is not None and (not isinstance(other, list) or len(other) != len(tokens)):
            raise _Damaged(f"its vocabulary and tokenizer.ggml.{key} differ in length")
    for key, value in metadata.items():
        is_id = key.startswith("tokenizer.ggml.") and key.endswith("_token_id")
        if is_id and not (isinstance(value, int) and 0 <= value < len(tokens)):
            raise _Damaged(f"its {key} is {value!r}, which is not a token")


def _alignment(metadata: dict[str, Any]) -> int:
    alignment = metadata.get("general.alignment", 32)
    if not isinstance(alignment, int) or alignment < 1 or alignment & (alignment - 1):
        raise _Damaged(f"its general.alignment is {alignment!r}, not a power of two")
    return alignment


def _check_siblings(path: Path) -> None:
    found = _SPLIT.fullmatch(path.name)
    if found is None:
        return
    for number in range(1, int(found["count"]) + 1):
        sibling = path.with_name(f"{found['stem']}-{number:05}-of-{found['count']}.gguf")
        if not sibling.is_file():
            raise UserError(f"{path} is one piece of a model; the piece {sibling.name} is missing")
