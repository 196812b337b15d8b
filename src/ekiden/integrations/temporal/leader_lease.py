"""A lease that selects one of several processes for a piece of work."""

from __future__ import annotations

import asyncio
import logging

from ekiden.core.errors import StaleDocument, StoreError
from ekiden.core.values import is_dead, owner_name
from ekiden.integrations.temporal.names import COLLECTION
from ekiden.storage.base import DocumentWrite, Store

_log = logging.getLogger("ekiden.temporal")

TERM_S = 3.0
"""The maximum term of a lease."""
_RENEW_EVERY_S = 0.25


class LeaderLease:
    """A lease that one process holds at a time, and renews.

    For a moment two processes may believe that they hold it. So only idempotent work may depend on
    it.
    """

    def __init__(self, store: Store, name: str, *, term_s: float = TERM_S) -> None:
        """`term_s`: after this many seconds without a renewal another process takes the lease."""
        self._store = store
        self._term_s = min(term_s, TERM_S)
        self._key = f"office/{name}"
        self._until_us = 0
        """The end of the lease, in the time of the store."""
        self._held_until = 0.0
        """The end of the lease, in the time of the event loop."""
        self._owner = f"{id(self):x}-{owner_name()}"
        self.is_taken_over = False
        """Whether the last holder did not release the lease."""

    @property
    def is_held(self) -> bool:
        """Whether this process holds the lease, as far as it knows without reading the store."""
        return asyncio.get_running_loop().time() < self._held_until

    async def keep(self) -> None:
        """Take the lease as soon as it is free, and renew it until cancelled.

        This is a separate task: if the worker renewed the lease between two pieces of work, it
        would lose the lease during a long one, and the next holder would repeat the work.
        """
        while True:
            try:
                await self.hold()
            except StoreError as exc:
                _log.warning("%s could not be renewed, trying again: %s", self._key, exc)
            except Exception:
                _log.exception("%s could not be renewed, trying again", self._key)
            await asyncio.sleep(_RENEW_EVERY_S)

    async def hold(self) -> bool:
        """Take or renew the lease; returns whether this process holds it."""
        started_at = asyncio.get_running_loop().time()
        now_us = await self._store.now_us()
        term_us, longest_us = int(self._term_s * 1e6), int(TERM_S * 1e6)
        if now_us < self._until_us - term_us * 2 // 3:
            return True
        found = await self._store.get_document(COLLECTION, self._key)
        if (
            found is not None
            and found.body["who"] != self._owner
            and now_us < found.body["until_us"] <= now_us + longest_us
            and not is_dead(found.body["who"].partition("-")[2])
        ):
            self._lose()
            return False
        until_us = now_us + term_us
        write = DocumentWrite(
            collection=COLLECTION,
            key=self._key,
            body={"who": self._owner, "until_us": until_us},
            expected_version=0 if found is None else found.version,
        )
        try:
            await self._store.write_documents([write])
        except StaleDocument:
            self._lose()
            return False
        if not self.is_held:
            self.is_taken_over = found is not None
        self._until_us = until_us
        # The time before the write: the lease may end earlier here than in the store, never later.
        self._held_until = started_at + self._term_s
        return True

    async def leave(self) -> None:
        """Release the lease."""
        self._lose()
        found = await self._store.get_document(COLLECTION, self._key)
        if found is None or found.body["who"] != self._owner:
            return
        removal = DocumentWrite(
            collection=COLLECTION, key=self._key, body=None, expected_version=found.version
        )
        try:
            await self._store.write_documents([removal])
        except StaleDocument:
            return

    def _lose(self) -> None:
        self._until_us, self._held_until = 0, 0.0
