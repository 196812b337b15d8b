"""Calls of a memory back end with time-outs and pauses after failures."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Sequence
from math import isfinite
from typing import TypeVar
from weakref import WeakKeyDictionary

from ekiden.core.errors.memory import BackendUnavailable
from ekiden.core.roles import Clock
from ekiden.core.values import SYSTEM_CLOCK
from ekiden.memory.base import MemoryBackend, RemoteEntry, RemoteHit

SEARCH_TIMEOUT_S = 2.0
SEND_TIMEOUT_S = 10.0
_PAUSE_S = 5.0
_LONGEST_PAUSE_S = 300.0

_log = logging.getLogger("ekiden.memory")
_T = TypeVar("_T")


class RemoteCopy:
    """Calls a back end and counts its failures.

    After a failure the back end is not called for five seconds, then ten, up to five minutes: a run
    waits once for an unavailable back end, not with every call.
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
        """Like `MemoryBackend.search`, with a time-out of two seconds."""

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
        raise TypeError(f"it found {type(hits).__name__}, and no hits")
    for hit in hits:
        if not (
            isinstance(hit, RemoteHit)
            and isinstance(hit.key, str)
            and isinstance(hit.score, int | float)
            and isfinite(hit.score)
        ):
            raise TypeError(f"it found {hit!r:.80}, which is not a hit")
    return hits


_mirrors: WeakKeyDictionary[MemoryBackend, RemoteCopy] = WeakKeyDictionary()
_by_id: dict[int, RemoteCopy] = {}
"""Back ends that cannot be keys of a dictionary; they are never removed."""


def remote_copy_of(backend: MemoryBackend) -> RemoteCopy:
    """The process's `RemoteCopy` for this back end, which all callers share with its failures."""
    try:
        found = _mirrors.get(backend)
    except TypeError:
        return _by_id.setdefault(id(backend), RemoteCopy(backend))
    if found is None:
        found = _mirrors[backend] = RemoteCopy(backend)
    return found
