"""Reading the weights of a model from a ``.safetensors`` file.

Such a file is the length of a header, the header (JSON: of every tensor the type, the shape and
where its bytes are), and the bytes. Nothing in it can be executed; what it says of itself is
checked before any of it is used.
"""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass
from hashlib import sha256
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

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
