"""What a worker does beside its sessions, now and then: old ones go, new texts are found."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from ekiden.core.errors import StaleDocument, StoreError
from ekiden.core.retention import Retention
from ekiden.storage.base import DocumentWrite, Store

_log = logging.getLogger("ekiden.worker")

_EVERY_S = 60.0
_PRUNE_EVERY_US = 3600 * 1_000_000
_COLLECTION = "housekeeping"
_PRUNED = "pruned"


class Housekeeping:
    """Looks after a store: any number of processes may do so at once."""

    def __init__(self, store: Store, retention: Retention) -> None:
        self._store = store
        self._retention = retention

    async def run(self) -> None:
        """Tidy up now and then, for ever."""
        while True:
            await self.once()
            await asyncio.sleep(_EVERY_S)

    async def once(self) -> None:
        """Let go of what is old, at most once an hour over all processes, and bring the index of
        sessions up to date if anybody uses it. What fails is tried again the next time."""
        await self._attempt(self._prune)
        await self._attempt(self._index)

    async def _attempt(self, work: Callable[[], Awaitable[None]]) -> None:
        try:
            await work()
        except StoreError as exc:
            _log.warning("the store could not be tidied up, trying again: %s", exc)
        except Exception:
            _log.exception("the store could not be tidied up, trying again")

    async def _prune(self) -> None:
        rule = self._retention
        if not rule.has_rules:
            return
        from ekiden.runtime.retention import prune_sessions

        now_us = await self._store.now_us()
        document = await self._store.get_document(_COLLECTION, _PRUNED)
        if document is not None and now_us - document.body["at_us"] < _PRUNE_EVERY_US:
            return
        turn = DocumentWrite(
            collection=_COLLECTION,
            key=_PRUNED,
            body={"at_us": now_us},
            expected_version=0 if document is None else document.version,
        )
        try:
            await self._store.write_documents([turn])
        except StaleDocument:
            return  # Another process does it.
        pruned = await prune_sessions(
            self._store,
            older_than_s=None if rule.days is None else rule.days * 86400,
            keep_last=rule.count,
        )
        _log.info("%s", pruned)

    async def _index(self) -> None:
        from ekiden.sessions.search import index_sessions, is_indexed

        if await is_indexed(self._store):
            await index_sessions(self._store)
