"""The position of an exporter: one document in the store, which is also the exporter's lease.

Each write names the version that the writer knows. So of several processes on one store one
exports, and one that was thought dead finds out before it writes.
"""

from __future__ import annotations

from ekiden.core.errors import StaleDocument
from ekiden.core.values import new_id
from ekiden.storage.base import DocumentWrite, Store

PLACES = "otel.exporters"
"""The collection; a document's key is the name of the exporter."""


class PlaceLost(Exception):
    """Another process exports now."""


class FeedPosition:
    """The place of one exporter in the feed of a store, for one process."""

    def __init__(self, store: Store, name: str, *, lease_s: float) -> None:
        self._store = store
        self._name = name
        self._owner = new_id("otl")
        self._lease_us = int(lease_s * 1e6)
        self._version = 0
        self._renewed_us = 0
        self.cursor: str | None = None
        """After the last event whose spans were sent; `None`: before the first."""
        self.sent = 0
        """Spans that were ever sent."""
        self.refused = 0
        self.problem: str | None = None
        """Why nothing is sent at the moment."""

    async def claim(self, *, from_start: bool) -> bool:
        """Become the one that exports; `False` while another is.

        An exporter that the store does not know begins with what happens from now on, or, with
        `from_start`, with the first event.
        """
        document = await self._store.get_document(PLACES, self._name)
        now_us = await self._store.now_us()
        if document is None:
            self._version = 0
            self.cursor = None if from_start else await self._store.feed_end()
        else:
            body = document.body
            if body["owner"] not in (None, self._owner) and body["until_us"] > now_us:
                return False
            self._version = document.version
            self.cursor, self.problem = body["cursor"], body["problem"]
            self.sent, self.refused = body["sent"], body["refused"]
        try:
            await self._write(now_us)
        except PlaceLost:
            return False
        return True

    async def keep(self) -> None:
        """Stay the one, if it is time to say so; `PlaceLost`."""
        now_us = await self._store.now_us()
        if now_us - self._renewed_us > self._lease_us // 3:
            await self._write(now_us)

    async def move(self, cursor: str | None, *, sent: int, refused: int) -> None:
        """Everything up to `cursor` was sent; `PlaceLost`."""
        self.cursor, self.problem = cursor, None
        self.sent += sent
        self.refused += refused
        await self._write(await self._store.now_us())

    async def note(self, problem: str) -> None:
        """Remember why nothing is sent; stored when that begins; `PlaceLost`."""
        is_new, self.problem = self.problem is None, problem
        if is_new:
            await self._write(await self._store.now_us())

    async def release(self) -> None:
        """Let others export; harmless if it was lost already."""
        try:
            await self._write(None)
        except PlaceLost:
            return

    async def _write(self, now_us: int | None) -> None:
        body = {
            "owner": None if now_us is None else self._owner,
            "until_us": 0 if now_us is None else now_us + self._lease_us,
            "cursor": self.cursor,
            "sent": self.sent,
            "refused": self.refused,
            "problem": self.problem,
        }
        write = DocumentWrite(
            collection=PLACES, key=self._name, body=body, expected_version=self._version
        )
        try:
            await self._store.write_documents([write])
        except StaleDocument as exc:
            raise PlaceLost from exc
        self._version += 1
        self._renewed_us = now_us or 0
