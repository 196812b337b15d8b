"""The interface of memory back ends, the register of back ends, and calls with timeouts. The
session store has every text with its metadata and vector. A back end gets copies later (see
`ekiden.memory.outbox`) and returns only keys, for which Ekiden reads the entries from the store. So
an unavailable back end only gets its copies later, and a faulty back end cannot reveal another
user's data.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import Any, NoReturn, Protocol, TypeAlias, TypeVar

from ekiden.core.errors.memory import BackendUnavailable, UnknownBackend
from ekiden.core.integrations.registry import Integration, integrations
from ekiden.core.roles import Clock
from ekiden.core.values import SYSTEM_CLOCK


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteEntry:
    """A memory in the form that back ends receive."""

    key: str
    """The key of the memory, unique in its space. It may be any text of up to 512 characters, not
    only ASCII."""
    text: str
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """The metadata of the memory, as JSON. A back end may omit values that it cannot store."""
    vector: Sequence[float]
    """The embedding of the text. Its Euclidean length is 1."""
    model: str
    """The name of the embedder that computed the vector. Never compare vectors of different
    embedders."""
    version: int
    """The time of the memory's last change, in microseconds since 1970. The value grows with every
    change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteHit:
    """A search result of a back end: the key and the score of a memory."""

    key: str
    score: float
    """The cosine similarity of the memory and the query, from 0 to 1. A negative cosine counts as
    0."""


class MemoryBackend(Protocol):
    """A back end for long-term memory: it stores copies of memories by space and key, and searches
    them by vector.

    A space holds the memories of one user, or of the app. Every call uses only one space. The name
    of a space has at most 80 ASCII characters (letters, digits, ``.`` and ``-``), and does not
    reveal the user. A back end must raise `BackendUnavailable` for every failure. Create this error
    with `retry=False` if a retry cannot help, for example after a wrong key or dimension. Ekiden
    cancels a `search` after about two seconds, and other calls after about ten seconds. Calls may
    be repeated, and may run concurrently. For example::

        register_backend("shelf", lambda options: Shelf(options.dimensions))
        memory = Memory(store, user="mira", settings=MemorySettings(type="vector", backend="shelf"))
    """

    @property
    def name(self) -> str:
        """The name of the back end in the settings, such as ``pinecone``."""
        ...

    async def upsert(self, space: str, entries: Sequence[RemoteEntry]) -> None:
        """Store the entries, which replace entries with the same key. There are at most 100
        entries, and all vectors come from the same embedder."""
        ...

    async def delete(self, space: str, keys: Sequence[str]) -> None:
        """Delete the entries with these keys, at most 100. Missing entries are ignored."""
        ...

    async def clear(self, space: str) -> None:
        """Delete all entries of the space. A missing space is ignored."""
        ...

    async def search(
        self, space: str, vector: Sequence[float], *, model: str, limit: int
    ) -> Sequence[RemoteHit]:
        """Return the entries whose vectors are nearest to the given vector, nearest first. Compare
        only vectors of the embedder `model`. The result for an unknown space is empty."""
        ...

    async def close(self) -> None:
        """Close all connections. A second call does nothing. A later use connects again."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendOptions:
    """The values from which a `BackendFactory` creates a back end for long-term memory."""

    dimensions: int
    """The length of the vectors that the back end will get."""
    environ: Mapping[str, str]
    """The environment variables with keys and addresses, such as ``PINECONE_API_KEY``."""


BackendFactory: TypeAlias = Callable[[BackendOptions], MemoryBackend]
"""A function that creates a back end without connecting. If a key, an address or an extra is
missing, the function raises a `UserError` that names it. The back end is then unavailable, and
Ekiden calls the function again later. After a success, Ekiden does not call it again for the same
name and dimension in this process."""

_log = logging.getLogger("ekiden.memory")

_OWN = frozenset({"store", "local", "sqlite", "postgres", "postgresql", "pgvector"})
"""Names that mean the session store, which needs no back end."""

_registered: dict[str, BackendFactory] = {}
_open: dict[tuple[str, int], MemoryBackend] = {}
_absent: dict[tuple[str, int], _Absent] = {}


def register_backend(name: str, factory: BackendFactory) -> None:
    """Register a function that creates the back end `name`. It replaces an earlier registration of
    this name.

    For example::

        register_backend("shelf", lambda options: Shelf(options.dimensions))
    """
    _registered[name] = factory
    for opened in (_open, _absent):
        for key in [each for each in opened if each[0] == name]:
            del opened[key]


def known_backends() -> Collection[str]:
    """The names of the registered back ends."""
    return sorted({*_integrated(), *_registered, "store"})


def remote_backend(name: str | None) -> str | None:
    """Return `name` if it is the name of an external back end. Returns `None` for names of the
    session store, such as ``store`` and ``sqlite``."""
    return None if name in _OWN and name not in _registered else name


def backend(name: str, *, dimensions: int) -> MemoryBackend:
    """Return the back end with this name. The first call in a process creates it. Raises
    `UnknownBackend` if no back end has this name.

    If the back end cannot be created, for example because a key or an extra is missing, the result
    is an object whose methods raise `BackendUnavailable` with the reason. Meanwhile, changes wait
    in the store, and the store answers searches. The next call of this function tries again to
    create the back end.
    """
    at = (name, dimensions)
    if at not in _open:
        factory = _factory(name)
        try:
            _open[at] = _create(factory, BackendOptions(dimensions=dimensions, environ=os.environ))
        except Exception as exc:
            absent = _absent.setdefault(at, _Absent(name))
            absent.problem = f"{exc}"
            return absent
    return _open[at]


async def close_backends() -> None:
    """Close the connections of all used back ends. A later use opens the connections again."""
    for each in list(_open.values()):
        try:
            await each.close()
        except Exception as exc:
            _log.warning("the memory back end %s could not be closed: %s", each.name, exc)


def _create(factory: BackendFactory, options: BackendOptions) -> MemoryBackend:
    made: MemoryBackend | None = factory(options)
    if made is None:
        raise TypeError("its factory returned None")
    return made


class _Absent:
    """A back end that cannot be created now."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.problem = ""

    async def upsert(self, space: str, entries: Sequence[RemoteEntry]) -> None:
        self._fail()

    async def delete(self, space: str, keys: Sequence[str]) -> None:
        self._fail()

    async def clear(self, space: str) -> None:
        self._fail()

    async def search(
        self, space: str, vector: Sequence[float], *, model: str, limit: int
    ) -> Sequence[RemoteHit]:
        self._fail()

    async def close(self) -> None:
        return None

    def _fail(self) -> NoReturn:
        raise BackendUnavailable(self.name, self.problem)


def _integrated() -> dict[str, Integration]:
    """The integrations with back ends; each has a `BackendFactory` called ``open_backend``."""
    return {each.name: each for each in integrations("memory")}


def _factory(name: str) -> BackendFactory:
    if name in _registered:
        return _registered[name]
    if name not in _integrated():
        raise UnknownBackend(name, known=known_backends())
    factory: BackendFactory = _integrated()[name].load().open_backend
    return factory


SEARCH_TIMEOUT_S = 2.0
SEND_TIMEOUT_S = 10.0
_PAUSE_S = 5.0
_LONGEST_PAUSE_S = 300.0

_T = TypeVar("_T")


class RemoteCopy:
    """Calls a back end and counts its failures.

    After a failure the back end is not called for five seconds. This pause doubles with every
    further failure, up to five minutes. So a run does not wait for an unavailable back end with
    every call.
    """

    def __init__(self, backend: MemoryBackend, *, clock: Clock = SYSTEM_CLOCK) -> None:
        self.backend = backend
        self._clock = clock
        self._failures = 0
        self._rests_until = 0.0

    @property
    def name(self) -> str:
        """The name of the back end."""
        return self.backend.name

    @property
    def is_resting(self) -> bool:
        """Whether the back end is not called now, because it failed recently."""
        return self._clock.monotonic() < self._rests_until

    async def search(
        self, space: str, vector: Sequence[float], *, model: str, limit: int
    ) -> Sequence[RemoteHit]:
        """Like `MemoryBackend.search`, with a timeout of two seconds."""

        async def search() -> Sequence[RemoteHit]:
            return _checked(await self.backend.search(space, vector, model=model, limit=limit))

        return await self._within(SEARCH_TIMEOUT_S, search())

    async def upsert(
        self, space: str, entries: Sequence[RemoteEntry], *, timeout_s: float = SEND_TIMEOUT_S
    ) -> None:
        """Like `MemoryBackend.upsert`."""
        await self._within(timeout_s, self.backend.upsert(space, entries))

    async def delete(
        self, space: str, keys: Sequence[str], *, timeout_s: float = SEND_TIMEOUT_S
    ) -> None:
        """Like `MemoryBackend.delete`."""
        await self._within(timeout_s, self.backend.delete(space, keys))

    async def clear(self, space: str, *, timeout_s: float = SEND_TIMEOUT_S) -> None:
        """Like `MemoryBackend.clear`."""
        await self._within(timeout_s, self.backend.clear(space))

    async def _within(self, seconds: float, call: Awaitable[_T]) -> _T:
        try:
            async with asyncio.timeout(seconds):
                result = await call
        except BackendUnavailable as exc:
            raise self._failed(exc) from exc
        except TimeoutError as exc:
            late = BackendUnavailable(self.name, f"no answer within {seconds:g} seconds")
            raise self._failed(late) from exc
        except Exception as exc:
            # An unexpected error of a back end must not make a run fail.
            foreign = BackendUnavailable(self.name, f"{type(exc).__name__}: {exc}")
            raise self._failed(foreign) from exc
        self._failures, self._rests_until = 0, 0.0
        return result

    def _failed(self, exc: BackendUnavailable) -> BackendUnavailable:
        pause = min(_PAUSE_S * 2.0 ** min(self._failures, 20), _LONGEST_PAUSE_S)
        if exc.retry:
            self._failures += 1
            self._rests_until = self._clock.monotonic() + pause
        _log.warning("%s", exc)
        return exc


def _checked(hits: object) -> Sequence[RemoteHit]:
    """The hits; raises `TypeError` for other values."""
    if not isinstance(hits, Sequence):
        raise TypeError(f"it returned {type(hits).__name__}, not hits")
    for hit in hits:
        if not (
            isinstance(hit, RemoteHit)
            and isinstance(hit.key, str)
            and isinstance(hit.score, int | float)
            and isfinite(hit.score)
        ):
            raise TypeError(f"it returned {hit!r:.80}, which is not a hit")
    return hits


_copies: dict[int, RemoteCopy] = {}
"""By the id of the back end. Copies are never removed, so no other back end gets this id."""


def remote_copy_of(backend: MemoryBackend) -> RemoteCopy:
    """The `RemoteCopy` of this process for this back end. All callers share it, so they share the
    count of failures."""
    return _copies.setdefault(id(backend), RemoteCopy(backend))
