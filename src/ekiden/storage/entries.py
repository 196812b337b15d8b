"""Entries as all back ends store and order them."""

from __future__ import annotations

import sys
from array import array
from collections.abc import Collection, Sequence
from math import hypot, isfinite
from operator import mul
from typing import NamedTuple

from ekiden.core.errors import UserError
from ekiden.storage.search import SearchEntry
from ekiden.storage.values import json_text


class OwnEntry(NamedTuple):
    """An entry that is fine, and of which the caller has no part that could change."""

    space: str
    key: str
    text: str
    body: str
    """As JSON."""
    model: str
    vector: array[float] | None
    """As float32, of length 1 or all zeros."""

    @property
    def name(self) -> str:
        """For messages."""
        return f"entry {self.key!r} of space {self.space!r}"


def own_entries(entries: Sequence[SearchEntry]) -> list[OwnEntry]:
    """The entries in the order of their spaces and keys, of those with the same the last.

    `UserError` as `put_entries` says, but for what depends on what is stored.
    """
    owned: dict[tuple[str, str], OwnEntry] = {}
    for entry in entries:
        owned[entry.space, entry.key] = _own(entry)
    lengths: dict[tuple[str, str], int] = {}
    for each in owned.values():
        if each.vector is not None:
            length = lengths.setdefault((each.space, each.model), len(each.vector))
            if length != len(each.vector):
                raise other_length(each.name, each.model, len(each.vector), length)
    return [owned[at] for at in sorted(owned)]


def own_vector(vector: Sequence[float], name: str) -> array[float]:
    """The vector as float32, of length 1 or all zeros; `UserError`."""
    try:
        numbers = array("d", vector)
        size = hypot(*numbers)
    except (TypeError, ValueError, OverflowError) as exc:
        raise UserError(f"the vector of {name} has a value that is not a number: {exc}") from exc
    if not numbers:
        raise UserError(f"the vector of {name} is empty: leave it out, or give its numbers")
    if not isfinite(size):
        raise UserError(f"the vector of {name} has a value that is not a finite number")
    if size == 0.0 or abs(size - 1.0) < 1e-6:
        return array("f", numbers)
    return array("f", [number / size for number in numbers])


def to_bytes(vector: array[float]) -> bytes:
    """The vector as it is stored: little-endian float32."""
    if sys.byteorder == "little":
        return vector.tobytes()
    swapped = vector[:]
    swapped.byteswap()
    return swapped.tobytes()


def from_bytes(stored: bytes) -> tuple[float, ...]:
    """The vector that `to_bytes` made `stored` from."""
    return tuple(_array(stored))


def other_length(name: str, model: str, length: int, known: int) -> UserError:
    """The error of a vector that cannot be compared with those of its model."""
    return UserError(
        f"the vector of {name} has {length} numbers, but those of model {model!r} have {known}: "
        "name another model, or replace all of them"
    )


def is_name(name: str) -> bool:
    """Whether a space or key can have this name: otherwise there is nothing under it."""
    if not isinstance(name, str) or not name:
        return False
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def names_among(keys: Collection[str]) -> list[str]:
    """Those of the keys that can be keys, each once, in order."""
    if isinstance(keys, str):
        raise UserError(f"`keys` is a list of keys, not the text {keys[:40]!r}")
    return sorted({key for key in keys if is_name(key)})


def check_after(after: str) -> str:
    """`after`; `UserError` if no key can be compared with it."""
    if after and not is_name(after):
        raise UserError(f"no key can come after {after[:40]!r}: it is not valid text")
    return after


def cosines(vectors: Sequence[bytes], asked: array[float]) -> list[float]:
    """How near each is to `asked`, -1 to 1; all are of the same length.

    Rounded, so that what is computed in other ways comes in the same order.
    """
    if not vectors:
        return []
    try:
        import numpy as np
    except ImportError:
        return [_cosine(_array(each), asked) for each in vectors]
    table = np.frombuffer(b"".join(vectors), dtype="<f4").reshape(len(vectors), len(asked))
    near: list[float] = (table @ np.frombuffer(asked, dtype=np.float32)).tolist()
    return [round(each, 6) for each in near]


def numpy_or_python() -> str:
    """What `cosines` computes with."""
    try:
        import numpy as np
    except ImportError:
        return "python"
    return f"numpy {np.__version__}"


def score_of(cosine: float) -> float:
    """The score of a hit."""
    return min(1.0, max(0.0, cosine))


def _own(entry: SearchEntry) -> OwnEntry:
    space, key, model = entry.space, entry.key, entry.model
    for what, name in (("space", space), ("key", key)):
        if not is_name(name):
            raise UserError(f"an entry has the {what} {name!r}: it must be text, and not empty")
    place = f"entry {key!r} of space {space!r}"
    if not isinstance(entry.text, str):
        raise UserError(f"the text of {place} is not text, but {type(entry.text).__name__}")
    body = json_text(entry.body, "the body of entry {!r} of space {!r}", key, space)
    if entry.vector is None:
        return OwnEntry(space, key, entry.text, body, "", None)
    if not is_name(model):
        raise UserError(f"the vector of {place} has no `model`: name the embedder that made it")
    return OwnEntry(space, key, entry.text, body, model, own_vector(entry.vector, place))


def _array(stored: bytes) -> array[float]:
    vector = array("f", stored)
    if sys.byteorder != "little":
        vector.byteswap()
    return vector


def _cosine(one: array[float], other: array[float]) -> float:
    near: float = sum(map(mul, one, other))
    return round(near, 6)
