"""The weights of a BERT encoder: read from ``.safetensors`` files and checked.

A ``.safetensors`` file consists of the header's length, the header (JSON: type, shape and position
of each tensor) and the bytes. It contains no code, and the header is checked before use.
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
from ekiden.integrations.bert_encoder.wordpiece import MAX_PIECES, read_json

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
    """The tensors of numbers with a point in a file; others, such as positions, are passed over.

    Raises `UserError` for a file that cannot be read, or is not what it says::

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
        """Tells files with different tensors apart, by the header and the last of the bytes."""
        self._start = _LENGTH.size + len(head)
        self._tensors = self._checked(self._parsed(head))

    def __contains__(self, name: str) -> bool:
        return name in self._tensors

    def shape(self, name: str) -> tuple[int, ...]:
        """`UserError` if there is no such tensor."""
        return self._tensor(name).shape

    def read(self, name: str) -> NDArray[np.float32]:
        """A copy as 32-bit floats; `UserError` if there is no such tensor."""
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
        if tensor.kind == "BF16":
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
        for name, said in header.items():
            if name == "__metadata__":
                continue
            try:
                kind, shape, (start, end) = said["dtype"], said["shape"], said["data_offsets"]
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
_PLACES = "embeddings.position_embeddings.weight"
_KINDS = "embeddings.token_type_embeddings.weight"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """The sizes, and how a text is summed up."""

    width: int
    wide: int
    layers: int
    heads: int
    places: int
    words: int
    epsilon: float
    pooling: Literal["mean", "cls"]

    @property
    def limit(self) -> int:
        """So many pieces of a text are looked at."""
        return min(MAX_PIECES, self.places)

    @classmethod
    def from_folder(cls, folder: Path) -> Shape:
        """Raises `UserError` for a folder without ``config.json``, or another kind of model."""
        path = folder / "config.json"
        if not path.exists():
            raise UserError(f"{folder} has no encoder: there is no config.json in it")
        said = read_json(path)
        for name, wanted in (
            ("model_type", "bert"),
            ("hidden_act", "gelu"),
            ("position_embedding_type", "absolute"),
        ):
            if said.get(name, wanted) != wanted:
                raise UserError(f"{path}: {name} is {said[name]!r}; only {wanted!r} can be used")
        sizes = {name: _size(path, said, name) for name in _LARGEST}
        width, heads = sizes["hidden_size"], sizes["num_attention_heads"]
        if width % heads:
            raise UserError(f"{path}: hidden_size {width} cannot be divided among {heads} heads")
        epsilon = said.get("layer_norm_eps", 1e-12)
        if not isinstance(epsilon, float) or not 0 <= epsilon < 1:
            raise UserError(f"{path}: layer_norm_eps must be from 0 to 1, not {epsilon!r}")
        return cls(
            width=width,
            wide=sizes["intermediate_size"],
            layers=sizes["num_hidden_layers"],
            heads=heads,
            places=sizes["max_position_embeddings"],
            words=sizes["vocab_size"],
            epsilon=epsilon,
            pooling=_pooling(folder / "1_Pooling" / "config.json"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Dense:
    """A row times `matrix`, plus `bias`."""

    matrix: Matrix
    bias: Matrix


@dataclass(frozen=True, slots=True, kw_only=True)
class Norm:
    """What a row of mean 0 and variance 1 is multiplied with, and what is added."""

    scale: Matrix
    shift: Matrix


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """One step of the encoder."""

    asking: Dense
    """Queries (divided by the root of a head's width), keys and values, side by side."""
    attended: Dense
    after_attention: Norm
    wide: Dense
    narrow: Dense
    after_all: Norm


@dataclass(frozen=True, slots=True, kw_only=True)
class EncoderWeights:
    """All numbers of an encoder, laid out for being multiplied from the left."""

    words: Matrix
    places: Matrix
    """With what is added for a first sentence, as there is no second."""
    norm: Norm
    layers: tuple[Layer, ...]

    @staticmethod
    def check(file: SafeTensors, shape: Shape, *, pieces: int) -> None:
        """`UserError` if a tensor is missing or has another shape; nothing is read yet."""
        if pieces > shape.words:
            raise UserError(
                f"{file.path} does not fit its vocabulary: it has vectors for {shape.words} "
                f"pieces, and the vocabulary has {pieces}"
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
        """Reads everything; call `check` before."""
        prefix = _prefix(file)
        found: dict[str, Matrix] = {}
        for name, _ in _tensors(shape):
            found[name] = file.read(prefix + name)
            if not np.isfinite(found[name]).all():
                raise UserError(f"{file.path} cannot be used: {name} has values that are no number")
        return cls(
            words=found[_WORDS],
            places=found[_PLACES][: shape.limit] + found[_KINDS][0],
            norm=_norm(found, "embeddings.LayerNorm"),
            layers=tuple(_layer(found, number, shape) for number in range(shape.layers)),
        )


def _layer(found: Mapping[str, Matrix], number: int, shape: Shape) -> Layer:
    start = f"encoder.layer.{number}."
    parts = [_dense(found, f"{start}attention.self.{name}") for name in ("query", "key", "value")]
    scale = np.float32((shape.width // shape.heads) ** -0.5)
    parts[0] = Dense(matrix=parts[0].matrix * scale, bias=parts[0].bias * scale)
    return Layer(
        asking=Dense(
            matrix=np.ascontiguousarray(np.hstack([each.matrix for each in parts])),
            bias=np.concatenate([each.bias for each in parts]),
        ),
        attended=_dense(found, f"{start}attention.output.dense"),
        after_attention=_norm(found, f"{start}attention.output.LayerNorm"),
        wide=_dense(found, f"{start}intermediate.dense"),
        narrow=_dense(found, f"{start}output.dense"),
        after_all=_norm(found, f"{start}output.LayerNorm"),
    )


def _dense(found: Mapping[str, Matrix], name: str) -> Dense:
    matrix = np.ascontiguousarray(found[f"{name}.weight"].T)
    return Dense(matrix=matrix, bias=found[f"{name}.bias"])


def _norm(found: Mapping[str, Matrix], name: str) -> Norm:
    return Norm(scale=found[f"{name}.weight"], shift=found[f"{name}.bias"])


def _prefix(file: SafeTensors) -> str:
    return "bert." if f"bert.{_WORDS}" in file else ""


def _tensors(shape: Shape) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Every tensor that is needed, with its shape."""
    width, wide = shape.width, shape.wide
    yield _WORDS, (shape.words, width)
    yield _PLACES, (shape.places, width)
    yield _KINDS, (2, width)
    yield from _pair("embeddings.LayerNorm", (width,))
    for number in range(shape.layers):
        start = f"encoder.layer.{number}."
        for name in ("self.query", "self.key", "self.value", "output.dense"):
            yield from _pair(f"{start}attention.{name}", (width, width))
        yield from _pair(f"{start}attention.output.LayerNorm", (width,))
        yield from _pair(f"{start}intermediate.dense", (wide, width))
        yield from _pair(f"{start}output.dense", (width, wide))
        yield from _pair(f"{start}output.LayerNorm", (width,))


def _pair(name: str, shape: tuple[int, ...]) -> Iterator[tuple[str, tuple[int, ...]]]:
    yield f"{name}.weight", shape
    yield f"{name}.bias", shape[:1]


def _times(shape: tuple[int, ...]) -> str:
    return " × ".join(map(str, shape)) or "one number"


def _size(path: Path, said: Mapping[str, Any], name: str) -> int:
    value = said.get(name)
    if type(value) is not int or not 0 < value <= _LARGEST[name]:
        raise UserError(f"{path}: {name} must be from 1 to {_LARGEST[name]}, not {value!r}")
    return value


def _pooling(path: Path) -> Literal["mean", "cls"]:
    said = read_json(path, missing={"pooling_mode_mean_tokens": True})
    modes = {name for name, on in said.items() if name.startswith("pooling_mode_") and on is True}
    modes |= {f"pooling_mode_{said['pooling_mode']}"} if "pooling_mode" in said else set()
    if modes <= {"pooling_mode_mean_tokens", "pooling_mode_mean"} and modes:
        return "mean"
    if modes <= {"pooling_mode_cls_token", "pooling_mode_cls"} and modes:
        return "cls"
    raise UserError(f"{path}: only the mean of all pieces, or the first one, can be taken")
