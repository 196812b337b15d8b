"""Of several processes that could do a thing for a store, one does it."""

from __future__ import annotations

from ekiden.core.errors import StaleDocument
from ekiden.engine.temporal.names import COLLECTION
from ekiden.runtime.state.leases import owner_name
from ekiden.storage.base import DocumentWrite, Store

TERM_S = 3.0
"""So long nobody else takes the office of a process that is not heard of."""


class Office:
    """An office that one process holds at a time, for a term that it renews.

    Two may believe for a moment that they hold it: only what does no harm when it is done twice
    may depend on it.
    """

    def __init__(self, store: Store, name: str) -> None:
        self._store = store
        self._key = f"office/{name}"
        self._until_us = 0
        self._who = f"{owner_name()}-{id(self):x}"

    async def hold(self) -> bool:
        """Take the office or keep it; whether it is ours."""
        now_us = await self._store.now_us()
        term_us = int(TERM_S * 1e6)
        if now_us < self._until_us - term_us * 2 // 3:
            return True
        found = await self._store.get_document(COLLECTION, self._key)
        is_others = found is not None and found.body["who"] != self._who
        if found is not None and is_others and now_us < found.body["until_us"] <= now_us + term_us:
            self._until_us = 0
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
            self._until_us = 0
            return False
        self._until_us = until_us
        return True

    async def leave(self) -> None:
        """Let somebody else have it at once."""
        self._until_us = 0
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
