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
    """A memory as a back end gets it."""

    key: str
    """Unique in its space; any text of up to 512 characters, not only ASCII."""
    text: str
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """JSON; what a back end cannot keep it may leave out."""
    vector: Sequence[float]
    """Of length 1."""
    model: str
    """Which embedder made the vector: those of two must never be compared."""
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

    A space is ASCII: letters, digits, ``.`` and ``-``, at most 80 characters; it says nothing of
    whose it is. Every call stays inside one space. Whatever goes wrong is `BackendUnavailable`,
    never a foreign exception; `retry=False` on it for what will never go well (a wrong key, a
    wrong dimension). Calls are given up (cancelled) after about two seconds for `search` and ten
    for the others. All of them may come twice, and from several tasks at once. For example::

        register_backend("shelf", lambda options: Shelf(options.dimensions))
        memory = Memory(store, user="mira", settings=MemorySettings(type="vector", backend="shelf"))
    """

    @property
    def name(self) -> str:
        """What it is called in settings, such as ``pinecone``."""
        ...

    async def upsert(self, space: str, entries: Sequence[RemoteEntry]) -> None:
        """Keep the entries in the place of those with the same key; at most 100, of one model."""
        ...

    async def delete(self, space: str, keys: Sequence[str]) -> None:
        """Remove these, at most 100; one that is not there is fine."""
        ...

    async def clear(self, space: str) -> None:
        """Remove all of the space; one that is not there is fine."""
        ...

    async def search(
        self, space: str, vector: Sequence[float], *, model: str, limit: int
    ) -> Sequence[RemoteHit]:
        """The nearest entries with a vector of this model, the nearest first; none of an unknown
        space."""
        ...

    async def close(self) -> None:
        """Let go of connections; a second call does nothing, and a later use opens them again."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendOptions:
    """What a back end is made with."""

    dimensions: int
    """The length of the vectors it will get."""
    environ: Mapping[str, str]
    """Where it finds keys and addresses, such as ``PINECONE_API_KEY``."""


BackendFactory: TypeAlias = Callable[[BackendOptions], MemoryBackend]
"""Makes a back end without connecting yet. `UserError` if a key, an address or an extra is missing:
the message names it, and the back end counts as away until it can be made. Called until it has made
one, once in a process for a name and a dimension."""
