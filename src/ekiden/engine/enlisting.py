"""A worker on the list of workers, as long as it is there."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Callable, Collection
from contextlib import suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, version

from ekiden.core.errors import EkidenError, StoreError
from ekiden.core.ids import new_id
from ekiden.engine.registry import (
    BEAT_S,
    BEATS,
    WORKERS,
    list_workers,
    prune_workers,
    removals,
    unserved,
)
from ekiden.engine.serving import needs_of
from ekiden.engine.station import Station
from ekiden.runtime.state.leases import owner_name
from ekiden.storage.base import DocumentWrite

_log = logging.getLogger("ekiden.worker")

_TIDY_EVERY = 15
"""Beats after which old entries are looked at, and sessions that nobody runs."""
_WRITE_EVERY = 15
"""Beats after which the entry is written again: somebody may have taken it for one of the dead."""


class Enlisting:
    """Keeps a worker's entry in the store of a station: one small write every few seconds."""

    def __init__(
        self,
        station: Station,
        *,
        concurrency: int,
        labels: Collection[str] = (),
        engine: str = "worker",
        is_draining: Callable[[], bool] = lambda: False,
    ) -> None:
        self.id = new_id("wkr")
        self._station = station
        self._concurrency = concurrency
        self._labels = sorted(labels)
        self._engine = engine
        self._is_draining = is_draining
        self._has_written = False
        """Whether anything may be on the list."""
        self._until_entry = 0
        """Beats until the entry is written."""
        self._started_us: int | None = None
        self._told: set[str] = set()
        self._needs = needs_of(station.team, station.serves)

    async def run(self) -> None:
        """Be on the list until cancelled; whatever is wrong with the list stops no worker."""
        beats = 0
        try:
            while True:
                try:
                    await self.beat()
                    if beats % _TIDY_EVERY == 0:
                        await self._tidy()
                    beats += 1
                except StoreError as exc:
                    _log.warning("the list of workers could not be written: %s", exc)
                except Exception:
                    _log.exception("the list of workers could not be written")
                await asyncio.sleep(BEAT_S)
        finally:
            await self.leave()

    async def beat(self) -> None:
        """Say that the worker is there."""
        store = self._station.store
        now_us = await store.now_us()
        if self._started_us is None:
            self._started_us = now_us
        writes = [] if self._until_entry else [self._entry(self._started_us)]
        beat = {
            "seen_us": now_us,
            "running": len(self._station.under_way),
            "finished": self._station.finished,
            "state": "draining" if self._is_draining() else "working",
        }
        self._has_written = True
        await store.write_documents(
            [*writes, DocumentWrite(collection=BEATS, key=self.id, body=beat)]
        )
        self._until_entry = (_WRITE_EVERY if writes else self._until_entry) - 1

    async def leave(self) -> None:
        """Take the worker off the list; if that cannot be stored, it is found to be gone."""
        if self._has_written:
            self._has_written, self._until_entry = False, 0
            with suppress(EkidenError):
                await self._station.store.write_documents(removals(self.id))

    def _entry(self, started_us: int) -> DocumentWrite:
        station = self._station
        body = {
            "owner": owner_name(),
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "version": _version(),
            "engine": self._engine,
            "tenant": station.name,
            "agents": sorted(station.serves),
            "needs": self._needs,
            "labels": self._labels,
            "concurrency": self._concurrency,
            "started_us": started_us,
        }
        return DocumentWrite(collection=WORKERS, key=self.id, body=body)

    async def _tidy(self) -> None:
        store = self._station.store
        await prune_workers(store)
        if not self._needs:
            return
        for each in await unserved(store, await list_workers(store), among=self._needs):
            if each.agent not in self._told:
                self._told.add(each.agent)
                _log.warning("ready sessions that no worker runs: %s", each)


@cache
def _version() -> str:
    try:
        return version("ekiden")
    except PackageNotFoundError:
        return "unknown"
