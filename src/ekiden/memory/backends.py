"""Back ends by name."""

from __future__ import annotations

import logging
import os
from collections.abc import Collection, Sequence
from typing import NoReturn

from ekiden.core.errors.memory import BackendUnavailable, UnknownBackend
from ekiden.core.integrations import Integration, integrations
from ekiden.memory.base import (
    BackendFactory,
    BackendOptions,
    MemoryBackend,
    RemoteEntry,
    RemoteHit,
)

_log = logging.getLogger("ekiden.memory")

_OWN = frozenset({"store", "local", "sqlite", "postgres", "postgresql", "pgvector"})
"""Names of what needs no back end: the store of the sessions, whatever it is."""

_registered: dict[str, BackendFactory] = {}
_open: dict[tuple[str, int], MemoryBackend] = {}
_absent: dict[tuple[str, int], _Absent] = {}


def register_backend(name: str, factory: BackendFactory) -> None:
    """Register a back end under its name; replaces one of the same name.

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


def elsewhere(name: str | None) -> str | None:
    """The name of a separate back end; `None` if memories stay in the session store (``store``,
    ``sqlite`` …)."""
    return None if name in _OWN and name not in _registered else name


def backend(name: str, *, dimensions: int) -> MemoryBackend:
    """The process's back end of that name; `UnknownBackend`.

    If it cannot be created, since a key or an extra is missing, it acts as unavailable and says
    why: changes wait, and the store answers. Every call tries again.
    """
    at = (name, dimensions)
    if at not in _open:
        factory = _factory(name)
        try:
            _open[at] = _made(factory, BackendOptions(dimensions=dimensions, environ=os.environ))
        except Exception as exc:
            absent = _absent.setdefault(at, _Absent(name))
            absent.problem = f"{exc}"
            return absent
    return _open[at]


async def close_backends() -> None:
    """Close the connections of all used back ends; a later use opens them again."""
    for each in list(_open.values()):
        try:
            await each.close()
        except Exception as exc:
            _log.warning("the memory back end %s could not be closed: %s", each.name, exc)


def _made(factory: BackendFactory, options: BackendOptions) -> MemoryBackend:
    made: MemoryBackend | None = factory(options)
    if made is None:
        raise TypeError("its factory gave None")
    return made


class _Absent:
    """A back end that cannot be made now."""

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
    """Those of the integrations: each has a function ``open_backend``, a `BackendFactory`."""
    return {each.name: each for each in integrations("memory")}


def _factory(name: str) -> BackendFactory:
    if name in _registered:
        return _registered[name]
    if name not in _integrated():
        raise UnknownBackend(name, known=known_backends())
    factory: BackendFactory = _integrated()[name].load().open_backend
    return factory
