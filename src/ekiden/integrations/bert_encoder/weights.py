"""Reads and checks the weights of a BERT encoder in ``.safetensors`` files.

A ``.safetensors`` file consists of the header's length, the header, and the bytes of the tensors.
The header is JSON with type, shape and position of each tensor. The file contains no code, and the
header is checked before use.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, TypeAlias

import numpy as np

from ekiden.core.errors import UserError

if TYPE_CHECKING:
    from numpy.typing import NDArray


_LENGTH = struct.Struct("<Q")
_MAX_HEADER = 16 * 2**20
_MAX_TENSORS = 20_000
_MAX_AXES = 8
_LAST = 65_536
_TYPES = {"F32": "<f4", "F16": "<f2", "BF16": "<u2"}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Tensor:
    kind: str
    shape: tuple[int, ...]
    start: int


class SafeTensors:
    """The floating-point tensors of a file. Other tensors are ignored.

    Raises `UserError` for a file that is unreadable or inconsistent::

        SafeTensors(folder / "model.safetensors").read("embeddings.LayerNorm.bias")
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._size = path.stat().st_size
            with path.open("rb") as file:
                head = self._head(file)
                file.seek(max(self._size - _LAST, 0))
                last = file.read(_LAST)
        except OSError as exc:
            raise UserError(f"{path} cannot be read: {exc.strerror or exc}") from exc
        self.mark = sha256(head + last).hexdigest()[:12]
        """A digest of the header and the last bytes, which identifies the tensors."""
        self._start = _LENGTH.size + len(head)
        self._tensors = self._checked(self._parsed(head))

    def __contains__(self, name: str) -> bool:
        return name in self._tensors

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of a tensor. Raises `UserError` for an unknown tensor."""
        return self._tensor(name).shape

    def read(self, name: str) -> NDArray[np.float32]:
        """A copy of a tensor as 32-bit floats. Raises `UserError` for an unknown tensor."""
        tensor = self._tensor(name)
        if not prod(tensor.shape):
            return np.zeros(tensor.shape, dtype=np.float32)
        try:
            kept = np.memmap(
                self.path,
                dtype=_TYPES[tensor.kind],
                mode="r",
                offset=self._start + tensor.start,
                shape=tensor.shape,
            )
        except (OSError, ValueError) as exc:
            raise self._broken(f"{name} cannot be read: {exc}") from exc
        if tensor.kind == "BF16":  # These are the upper 16 bits of a 32-bit float.
            return (kept.astype(np.uint32) << 16).view(np.float32)
        return np.array(kept, dtype=np.float32)

    def _tensor(self, name: str) -> _Tensor:
        if name not in self._tensors:
            raise self._broken(f"it has no tensor {name} of a type that is known")
        return self._tensors[name]

    def _head(self, file: BinaryIO) -> bytes:
        start = file.read(_LENGTH.size)
        if len(start) < _LENGTH.size:
            raise self._broken("it is too short")
        (length,) = _LENGTH.unpack(start)
        if length > min(_MAX_HEADER, self._size - _LENGTH.size):
            raise self._broken(f"its header is said to have {length:,} bytes")
        return file.read(length)

    def _parsed(self, head: bytes) -> dict[str, Any]:
        try:
            header = json.loads(head)
        except (ValueError, RecursionError) as exc:
            raise self._broken("its header is not JSON") from exc
        if not isinstance(header, dict) or len(header) > _MAX_TENSORS:
            raise self._broken("its header is not a list of tensors")
        return header

    def _checked(self, header: dict[str, Any]) -> dict[str, _Tensor]:
        found: dict[str, _Tensor] = {}
        for name, entry in header.items():
            if name == "__metadata__":
                continue
            try:
                kind, shape, (start, end) = entry["dtype"], entry["shape"], entry["data_offsets"]
            except (KeyError, TypeError, ValueError) as exc:
                raise self._broken(f"its header does not describe {name}") from exc
            numbers = [*shape, start, end] if isinstance(shape, list) else [None]
            if len(numbers) > _MAX_AXES + 2 or not all(map(_is_size, numbers)):
                raise self._broken(f"its header does not describe {name}")
            if end < start or end > self._size - self._start:
                raise self._broken(f"{name} is said to be beyond the end of the file")
            if not isinstance(kind, str) or kind not in _TYPES:
                continue
            if prod(shape) * np.dtype(_TYPES[kind]).itemsize != end - start:
                raise self._broken(f"{name} is said to have another size than its shape has")
            found[name] = _Tensor(kind=kind, shape=tuple(shape), start=start)
        return found

    def _broken(self, why: str) -> UserError:
        return UserError(f"{self.path} cannot be used: {why}; get the file again")


def _is_size(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**48


Matrix: TypeAlias = "NDArray[np.float32]"

_LARGEST = {
    "hidden_size": 4096,
    "intermediate_size": 16384,
    "num_hidden_layers": 48,
    "num_attention_heads": 64,
    "max_position_embeddings": 65536,
    "vocab_size": 2_000_000,
}
_WORDS = "embeddings.word_embeddings.weight"
_POSITIONS = "embeddings.position_embeddings.weight"
_SEGMENTS = "embeddings.token_type_embeddings.weight"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """The sizes of an encoder, and its pooling mode."""

    width: int
    intermediate: int
    layers: int
    heads: int
    positions: int
    words: int
    epsilon: float
    pooling: Literal["mean", "cls"]

    @property
    def limit(self) -> int:
        """The maximum number of tokens of a text."""
        return min(MAX_TOKENS, self.positions)

    @classmethod
    def from_folder(cls, folder: Path) -> Shape:
        """Read ``config.json``. Raises `UserError` if the file is missing, or does not describe a
        BERT encoder."""
        path = folder / "config.json"
        if not path.exists():
            raise UserError(f"{folder} has no encoder: there is no config.json in it")
        config = read_json(path)
        for name, wanted in (
            ("model_type", "bert"),
            ("hidden_act", "gelu"),
            ("position_embedding_type", "absolute"),
        ):
            if config.get(name, wanted) != wanted:
                raise UserError(f"{path}: {name} is {config[name]!r}; only {wanted!r} can be used")
        sizes = {name: _size(path, config, name) for name in _LARGEST}
        width, heads = sizes["hidden_size"], sizes["num_attention_heads"]
        if width % heads:
            raise UserError(f"{path}: hidden_size {width} cannot be divided among {heads} heads")
        epsilon = config.get("layer_norm_eps", 1e-12)
        if not isinstance(epsilon, float) or not 0 <= epsilon < 1:
            raise UserError(f"{path}: layer_norm_eps must be from 0 to 1, not {epsilon!r}")
        return cls(
            width=width,
            intermediate=sizes["intermediate_size"],
            layers=sizes["num_hidden_layers"],
            heads=heads,
            positions=sizes["max_position_embeddings"],
            words=sizes["vocab_size"],
            epsilon=epsilon,
            pooling=_pooling(folder / "1_Pooling" / "config.json"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Dense:
    """A dense layer: a row times `matrix`, plus `bias`."""

    matrix: Matrix
    bias: Matrix


@dataclass(frozen=True, slots=True, kw_only=True)
class Norm:
    """The factors and offsets of a layer normalization."""

    scale: Matrix
    shift: Matrix


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """One layer of the encoder."""

    qkv: Dense
    """The matrices of queries, keys and values, side by side. The queries are divided by the root
    of a head's width."""
    attention_output: Dense
    attention_norm: Norm
    intermediate: Dense
    output: Dense
    output_norm: Norm


@dataclass(frozen=True, slots=True, kw_only=True)
class EncoderWeights:
    """All weights of an encoder. The matrices are transposed, so that a layer computes `row @
    matrix`."""

    words: Matrix
    positions: Matrix
    """The sum of the position embeddings and the embedding of the first segment. Other segments are
    not used."""
    norm: Norm
    layers: tuple[Layer, ...]

    @staticmethod
    def check(file: SafeTensors, shape: Shape, *, vocabulary: int) -> None:
        """Check the header only. Raises `UserError` for a missing tensor or a wrong shape."""
        if vocabulary > shape.words:
            raise UserError(
                f"{file.path} does not fit its vocabulary: it has vectors for {shape.words} "
                f"pieces, and the vocabulary has {vocabulary}"
            )
        prefix = _prefix(file)
        for name, wanted in _tensors(shape):
            found = file.shape(prefix + name)
            if found != wanted:
                raise UserError(
                    f"{file.path} does not fit its config.json: {name} is {_times(found)}, "
                    f"and should be {_times(wanted)}"
                )

    @classmethod
    def read(cls, file: SafeTensors, shape: Shape) -> EncoderWeights:
        """Read all tensors. Call `check` before this method."""
        prefix = _prefix(file)
        found: dict[str, Matrix] = {}
        for name, _ in _tensors(shape):
            found[name] = file.read(prefix + name)
            if not np.isfinite(found[name]).all():
                raise UserError(
                    f"{file.path} cannot be used: {name} has values that are not finite"
                )
        return cls(
            words=found[_WORDS],
            positions=found[_POSITIONS][: shape.limit] + found[_SEGMENTS][0],
            norm=_norm(found, "embeddings.LayerNorm"),
            layers=tuple(_layer(found, number, shape) for number in range(shape.layers)),
        )


def _layer(found: Mapping[str, Matrix], number: int, shape: Shape) -> Layer:
    start = f"encoder.layer.{number}."
    parts = [_dense(found, f"{start}attention.self.{name}") for name in ("query", "key", "value")]
    scale = np.float32((shape.width // shape.heads) ** -0.5)
    parts[0] = Dense(matrix=parts[0].matrix * scale, bias=parts[0].bias * scale)
    return Layer(
        qkv=Dense(
            matrix=np.ascontiguousarray(np.hstack([each.matrix for each in parts])),
            bias=np.concatenate([each.bias for each in parts]),
        ),
        attention_output=_dense(found, f"{start}attention.output.dense"),
        attention_norm=_norm(found, f"{start}attention.output.LayerNorm"),
        intermediate=_dense(found, f"{start}intermediate.dense"),
        output=_dense(found, f"{start}output.dense"),
        output_norm=_norm(found, f"{start}output.LayerNorm"),
    )


def _dense(found: Mapping[str, Matrix], name: str) -> Dense:
    matrix = np.ascontiguousarray(found[f"{name}.weight"].T)
    return Dense(matrix=matrix, bias=found[f"{name}.bias"])


def _norm(found: Mapping[str, Matrix], name: str) -> Norm:
    return Norm(scale=found[f"{name}.weight"], shift=found[f"{name}.bias"])


def _prefix(file: SafeTensors) -> str:
    return "bert." if f"bert.{_WORDS}" in file else ""


def _tensors(shape: Shape) -> Iterator[tuple[str, tuple[int, ...]]]:
    """The names and shapes of all required tensors."""
    width, intermediate = shape.width, shape.intermediate
    yield _WORDS, (shape.words, width)
    yield _POSITIONS, (shape.positions, width)
    yield _SEGMENTS, (2, width)
    yield from _pair("embeddings.LayerNorm", (width,))
    for number in range(shape.layers):
        start = f"encoder.layer.{number}."
        for name in ("self.query", "self.key", "self.value", "output.dense"):
            yield from _pair(f"{start}attention.{name}", (width, width))
        yield from _pair(f"{start}attention.output.LayerNorm", (width,))
        yield from _pair(f"{start}intermediate.dense", (intermediate, width))
        yield from _pair(f"{start}output.dense", (width, intermediate))
        yield from _pair(f"{start}output.LayerNorm", (width,))


def _pair(name: str, shape: tuple[int, ...]) -> Iterator[tuple[str, tuple[int, ...]]]:
    yield f"{name}.weight", shape
    yield f"{name}.bias", shape[:1]


def _times(shape: tuple[int, ...]) -> str:
    return " × ".join(map(str, shape)) or "one number"


def _size(path: Path, config: Mapping[str, Any], name: str) -> int:
    value = config.get(name)
    if type(value) is not int or not 0 < value <= _LARGEST[name]:
        raise UserError(f"{path}: {name} must be from 1 to {_LARGEST[name]}, not {value!r}")
    return value


def _pooling(path: Path) -> Literal["mean", "cls"]:
    config = read_json(path, missing={"pooling_mode_mean_tokens": True})
    modes = {name for name, on in config.items() if name.startswith("pooling_mode_") and on is True}
    modes |= {f"pooling_mode_{config['pooling_mode']}"} if "pooling_mode" in config else set()
    if modes <= {"pooling_mode_mean_tokens", "pooling_mode_mean"} and modes:
        return "mean"
    if modes <= {"pooling_mode_cls_token", "pooling_mode_cls"} and modes:
        return "cls"
    raise UserError(f"{path}: only the mean of all pieces, or the first one, can be taken")


MAX_TOKENS = 128
_MAX_BYTES = 64 * 2**20


def read_json(path: Path, *, missing: dict[str, Any] | None = None) -> dict[str, Any]:
    """Read the JSON object in a file. Returns `missing` if the file does not exist. Raises
    `UserError` for an invalid file."""
    if missing is not None and not path.exists():
        return missing
    try:
        found = json.loads(read_text(path))
    except (ValueError, RecursionError) as exc:
        raise UserError(f"{path} is not JSON: {exc}") from exc
    if not isinstance(found, dict):
        raise UserError(f"{path} must hold a JSON object")
    return found


def read_text(path: Path) -> str:
    try:
        if path.stat().st_size > _MAX_BYTES:
            raise UserError(f"{path} is larger than {_MAX_BYTES // 2**20} MB")
        return path.read_text("utf-8")
    except OSError as exc:
        raise UserError(f"{path} cannot be read: {exc.strerror or exc}") from exc
    except UnicodeDecodeError as exc:
        raise UserError(f"{path} is not UTF-8") from exc
