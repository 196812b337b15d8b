"""Caches the local encoder's tables in a file, so that processes start quickly.

The package stores a vocabulary that must be parsed in Python, and compressed weights. To load
vocabulary and weights takes 1.5 s of CPU. So the first process writes them to a file as raw numbers
and text, and later processes map this file into memory.

An invalid file is written again. Before a file is written, an encoder with the new tables is
compared with the package's own encoder. The file is written only if their vectors are the same.
"""

from __future__ import annotations

import json
from array import array
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from struct import pack
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ekiden.embeddings.cache_folder import BAD_FILE, Arrays, cache_folder, read_arrays, write_arrays

_SAMPLES: Final = (
    "Where is my order 1042?",
    "我的订单在哪里？",
    "ﬁn de l’été\u3000naïve",
    "x",
    "ÿ🎉",
)


_FEW_LOOKUPS: Final = 3_000
"""A short request needs a few hundred."""


class _Pieces(Sequence[str]):
    """The vocabulary, as one text in UTF-8. A request needs few of its 128,000 pieces."""

    __slots__ = ("_starts", "_text")

    def __init__(self, text: bytes, starts: Sequence[int]) -> None:
        self._text = text
        self._starts = starts
        """The place of each piece, and one more than the place of the end."""

    def __len__(self) -> int:
        return len(self._starts) - 1

    def __getitem__(self, number: Any) -> Any:
        return self._text[self._starts[number] : self._starts[number + 1] - 1].decode()

    def to_list(self) -> list[str]:
        """All pieces, for many requests: each is found faster."""
        return self._text.decode().split("\n")


class _Prefixes:
    """The vocabulary as the tokenizer needs it: piece id + 1, 0 for the beginning of a piece, and
    `None` for any other text."""

    __slots__ = ("_all", "_left", "_order", "_pieces")

    def __init__(self, pieces: _Pieces, order: NDArray[np.int32]) -> None:
        self._all = pieces
        self._pieces: Sequence[str] = pieces
        self._left = _FEW_LOOKUPS
        self._order = array("i", order.tobytes())

    def get(self, text: str) -> int | None:
        pieces = self._pieces
        if self._left:
            self._left -= 1
            if not self._left:
                pieces = self._pieces = self._all.to_list()
        at = bisect_left(self._order, text, key=pieces.__getitem__)
        if at == len(self._order):
            return None
        number = self._order[at]
        if not pieces[number].startswith(text):
            return None
        return number + 1 if pieces[number] == text else 0


def quick_encoder(package: Any, version: str) -> Any:
    """Return the package's encoder, with tables from the file. Without a valid file, the tables are
    loaded from the package, and the file is written."""
    resources = Path(package.__file__).parent / "resources"
    stamps = [[each.name, each.stat().st_size, each.stat().st_mtime_ns] for each in _all(resources)]
    key = f"{version} {json.dumps(stamps)}"
    path = cache_folder("encoders") / "use-multilingual-3.tables"
    try:
        return _encoder(package, read_arrays(path, key))
    except BAD_FILE:
        pass
    slow = package.USE()
    expected = slow.encode(list(_SAMPLES))
    with suppress(*BAD_FILE):
        tables = _tables(slow)
        if np.allclose(_encoder(package, tables).encode(list(_SAMPLES)), expected, atol=1e-5):
            write_arrays(path, key, tables.arrays, tables.numbers)
    return slow


def _all(folder: Path) -> list[Path]:
    return sorted(folder.iterdir())


def _tables(encoder: Any) -> Arrays:
    """Everything that the encoder computed while it was loaded."""
    tokens, model = encoder._tokenizer, encoder._model
    pieces: list[str] = tokens._pieces
    if any("\n" in piece for piece in pieces) or len(set(pieces)) != len(pieces):
        raise ValueError("the vocabulary cannot be kept as lines")
    normalizer = tokens._normalizer
    units = pack(f"<{len(normalizer._units)}I", *normalizer._units)
    charsmap = pack("<I", len(units)) + units + normalizer._normalized
    found: dict[str, NDArray[Any]] = {
        "pieces": np.frombuffer("\n".join(pieces).encode(), dtype="|u1"),
        "starts": np.cumsum([0, *(len(each.encode()) + 1 for each in pieces)], dtype="<i4"),
        "order": np.array(sorted(range(len(pieces)), key=pieces.__getitem__), dtype="<i4"),
        "longest": np.array([tokens._max_len], dtype="<i4"),
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
    return Arrays(found, numbers)


def _encoder(package: Any, tables: Arrays) -> Any:
    encoder = package.USE()
    encoder._sp = _tokenizer(package, tables.arrays)
    encoder._backend = _model(package, tables, encoder._sp)
    return encoder


def _tokenizer(package: Any, tables: Mapping[str, NDArray[Any]]) -> Any:
    source: Any = import_module(f"{package.__name__}.pure_tokenizer")
    made = source.UsePureTokenizer.__new__(source.UsePureTokenizer)
    text = tables["pieces"].tobytes()
    starts = array("i", tables["starts"].tobytes())
    made._pieces = _Pieces(text, starts)
    if starts[0] != 0 or starts[-1] != len(text) + 1:
        raise ValueError("the vocabulary is not whole")
    made._scores = array("f", tables["scores"].tobytes())
    if not len(made._pieces) == len(made._scores) == len(tables["order"]):
        raise ValueError("the vocabulary is not whole")
    made._unk_id, made._bos_id, made._eos_id = source._UNK, source._BOS, source._EOS
    made._unk_score = float(tables["scores"].min()) - 10.0
    made._max_len = int(tables["longest"][0])
    made._prefixes = _Prefixes(made._pieces, tables["order"])
    made._normalizer = source._Normalizer(tables["charsmap"].tobytes())
    return made


def _model(package: Any, tables: Arrays, tokenizer: Any) -> Any:
    backend: Any = import_module(f"{package.__name__}.backends.numpy").NumpyBackend
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
