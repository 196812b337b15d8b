"""A lease in the store that lets one of several processes do a job."""

from __future__ import annotations

import asyncio
import logging

from ekiden.core.errors import StaleDocument, StoreError
from ekiden.core.values import is_dead, owner_name
from ekiden.integrations.temporal.names import COLLECTION
from ekiden.storage.base import DocumentWrite, Store

_log = logging.getLogger("ekiden.temporal")

TERM_S = 3.0
"""After at most so long another process takes over the lease of a silent process."""
_LOOK_EVERY_S = 0.25


class LeaderLease:
    """An office that one process holds at a time, for a term that it renews.

    Two may believe for a moment that they hold it: only what does no harm when it is done twice
    may depend on it.
    """

    def __init__(self, store: Store, name: str, *, term_s: float = TERM_S) -> None:
        """`term_s`: after how long a process that is not heard of is taken for dead."""
        self._store = store
        self._term_s = min(term_s, TERM_S)
        self._key = f"office/{name}"
        self._until_us = 0
        self._held_until = 0.0
        """In the time of the loop."""
        self._who = f"{id(self):x}-{owner_name()}"
        self.is_taken_over = False
        """Whether an earlier holder did not release it."""

    @property
    def is_held(self) -> bool:
        """Whether it is ours, as far as is known without asking the store."""
        return asyncio.get_running_loop().time() < self._held_until

    async def keep(self) -> None:
        """Take the lease as soon as it is free and renew it, for ever.

        This is a task of its own: renewed between two pieces of work, the lease would be lost
        during a long one, and the next holder would repeat that work.
        """
        while True:
            try:
                await self.hold()
            except StoreError as exc:
                _log.warning("%s could not be renewed, trying again: %s", self._key, exc)
            except Exception:
                _log.exception("%s could not be renewed, trying again", self._key)
            await asyncio.sleep(_LOOK_EVERY_S)

    async def hold(self) -> bool:
        """Take the office or keep it; whether it is ours."""
        asked_at = asyncio.get_running_loop().time()
        now_us = await self._store.now_us()
        term_us, longest_us = int(self._term_s * 1e6), int(TERM_S * 1e6)
        if now_us < self._until_us - term_us * 2 // 3:
            return True
        found = await self._store.get_document(COLLECTION, self._key)
        if (
            found is not None
            and found.body["who"] != self._who
            and now_us < found.body["until_us"] <= now_us + longest_us
            and not is_dead(found.body["who"].partition("-")[2])
        ):
            self._lose()
            return False
        until_us = now_us + term_us
        write = DocumentWrite(
            collection=COLLECTION,
            key=self._key,
            body={"who": self._who, "until_us": until_us},
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
        self._held_until = asked_at + self._term_s
        return True

    async def leave(self) -> None:
        """Release it at once."""
        self._lose()
        found = await self._store.get_document(COLLECTION, self._key)
        if found is None or found.body["who"] != self._who:
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
