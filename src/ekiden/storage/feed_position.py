"""The position of a reader in the feed of a store, and its waits between reads."""

from __future__ import annotations

import asyncio

from ekiden.core.errors import StaleDocument
from ekiden.storage.base import DocumentWrite, Store


class FeedPositionLost(Exception):
    """Another process reads the feed for this reader now."""


class FeedPosition:
    """The stored position of a reader that sends the events of a store to another system.

    The position is one document, which is also the lease of the process that sends. Each write
    names the version that this process knows. So only one of several processes sends, and a process
    that lost its lease cannot write: its calls raise `FeedPositionLost`.
    """

    def __init__(
        self,
        store: Store,
        collection: str,
        key: str,
        *,
        name: str,
        owner: str,
        lease_s: float,
        skipped: str,
    ) -> None:
        """`name` is the name of the reader, and `skipped` the field of the document that counts
        skipped entries."""
        self._store = store
        self._collection = collection
        self._key = key
        self._name = name
        self._owner = owner
        self._lease_us = int(lease_s * 1e6)
        self._skipped = skipped
        self._version = 0
        self._renewed_us = 0
        self._lock = asyncio.Lock()
        self.cursor: str | None = None
        """The cursor after the last event that was read; `None`: before the first."""
        self.sent = 0
        """The number of entries that the other system ever accepted."""
        self.skipped = 0
        self.problem: str | None = None
        """Why nothing can be sent now."""

    async def claim(self, *, from_start: bool = True) -> bool:
        """Take the lease. Returns false while another process has the lease.

        A new reader begins with the first event, or without `from_start` with new events.
        """
        document = await self._store.get_document(self._collection, self._key)
        now_us = await self._store.now_us()
        if document is None:
            self._version = 0
            if not from_start:
                self.cursor = await self._store.feed_end()
        else:
            body = document.body
            if body["owner"] not in (None, self._owner) and body["until_us"] > now_us:
                return False
            self._version = document.version
            self.cursor, self.problem = body["cursor"], body["problem"]
            self.sent, self.skipped = body["sent"], body[self._skipped]
        try:
            await self._write(now_us)
        except FeedPositionLost:
            return False
        return True

    async def keep(self) -> None:
        """Renew the lease if the renewal is due."""
        now_us = await self._store.now_us()
        async with self._lock:
            if now_us - self._renewed_us > self._lease_us // 3:
                await self._write(now_us)

    async def save(self, *more: DocumentWrite) -> None:
        """Store the position and the numbers, in one transaction with `more`."""
        async with self._lock:
            await self._write(await self._store.now_us(), *more)

    async def note(self, problem: str | None) -> None:
        """Set or clear the problem. The start and the end of a problem are stored immediately."""
        changed = (problem is None) != (self.problem is None)
        self.problem = problem
        if changed:
            await self.save()

    async def release(self) -> None:
        """Release the lease. Does nothing if the lease is lost."""
        async with self._lock:
            try:
                await self._write(None)
            except FeedPositionLost:
                return

    async def _write(self, now_us: int | None, *more: DocumentWrite) -> None:
        """Write the document; without a time, release the lease."""
        body = {
            "name": self._name,
            "owner": None if now_us is None else self._owner,
            "until_us": 0 if now_us is None else now_us + self._lease_us,
            "cursor": self.cursor,
            "sent": self.sent,
            self._skipped: self.skipped,
            "problem": self.problem,
        }
        write = DocumentWrite(
            collection=self._collection, key=self._key, body=body, expected_version=self._version
        )
        try:
            await self._store.write_documents([write, *more])
        except StaleDocument as exc:
            raise FeedPositionLost from exc
        self._version += 1
        self._renewed_us = now_us or 0


async def wait_for_stop(
    stop: asyncio.Event, seconds: float, hint: asyncio.Task[None] | None = None
) -> None:
    """Wait for `stop`, for the hint, or for `seconds`."""
    stopping = asyncio.create_task(stop.wait())
    try:
        waits = {stopping} if hint is None else {stopping, hint}
        await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    finally:
        stopping.cancel()
        await asyncio.gather(stopping, return_exceptions=True)
