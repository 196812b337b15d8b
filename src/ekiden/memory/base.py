"""The role of a back end: a mirror of memories, elsewhere, that finds them by their vectors.

The session's store is the truth: it has every text, its metadata and its vector. A back end gets
copies, later (see `ekiden.memory.outbox`), and is asked for keys only; what it finds is read from
the store. So a back end that is away costs nothing but lateness, and one that mixes spaces up, or
lies, cannot show anybody what is not theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteEntry:
    """A memory for a back end."""

    key: str
    """Unique in its space; any text of up to 512 characters, not only ASCII."""
    text: str
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """JSON; a back end may leave out what it cannot store."""
    vector: Sequence[float]
    """Of length 1."""
    model: str
    """The embedder of the vector: vectors of two embedders must never be compared."""
    version: int
    """Grows with every change of the entry: microseconds since 1970."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteHit:
    """A key that a back end found."""

    key: str
    score: float
    """The cosine, 0 where it is below 0; 1 is nearest."""


class MemoryBackend(Protocol):
    """Copies of memories by space and key, found by vector.

    A space is ASCII: letters, digits, ``.`` and ``-``, at most 80 characters; it does not reveal
    its owner. Every call stays inside one space. Every failure is `BackendUnavailable`, never a
    foreign exception; with `retry=False` if a retry cannot help (a wrong key, a wrong dimension).
    Calls are cancelled after about two seconds for `search` and ten for the others. Calls may be
    repeated and concurrent. For example::

        register_backend("shelf", lambda options: Shelf(options.dimensions))
        memory = Memory(store, user="mira", settings=MemorySettings(type="vector", backend="shelf"))
    """

    @property
    def name(self) -> str:
        """Its name in settings, such as ``pinecone``."""
        ...

    async def upsert(self, space: str, entries: Sequence[RemoteEntry]) -> None:
        """Store the entries, replacing those with the same key; at most 100, of one model."""
        ...

    async def delete(self, space: str, keys: Sequence[str]) -> None:
        """Delete these, at most 100; missing ones are ignored."""
        ...

    async def clear(self, space: str) -> None:
        """Delete the whole space; a missing one is ignored."""
        ...

    async def search(
        self, space: str, vector: Sequence[float], *, model: str, limit: int
    ) -> Sequence[RemoteHit]:
        """The nearest entries with a vector of this model, nearest first; none for an unknown
        space."""
        ...

    async def close(self) -> None:
        """Close connections; a second call does nothing, and a later use opens them again."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendOptions:
    """The options of a back end."""

    dimensions: int
    """The length of the vectors it will get."""
    environ: Mapping[str, str]
    """The source of keys and addresses, such as ``PINECONE_API_KEY``."""


BackendFactory: TypeAlias = Callable[[BackendOptions], MemoryBackend]
"""Makes a back end without connecting yet. `UserError` if a key, an address or an extra is missing:
the message names it, and the back end counts as away until it can be made. Called until it has made
one, once in a process for a name and a dimension."""
