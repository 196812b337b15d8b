"""The waits of one process for inbox items.

A signal of the store says only that something changed. So that many waiters on a busy store do not
each read at every change, one task reads for all of them. After each round it pauses for a multiple
of the round's duration. It ends with the last waiter.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from time import monotonic

from ekiden.core.errors import StoreError
from ekiden.core.errors.messages import InboxItemNotFound
from ekiden.core.questions import WAITS
from ekiden.core.values import new_id
from ekiden.inbox.changes import read_current
from ekiden.inbox.items import next_due_us
from ekiden.storage.base import DocumentWrite, Store

_READ_EVERY_S = 5.0
"""The interval of reads without a signal, which may be lost."""
_PRESENT_S = 15.0
"""The time after which a process that does not renew its waits counts as dead."""
_RENEW_EVERY_S = 5.0
_SHORTEST_PAUSE_S = 0.005
_AFTER_FAILURE_S = 0.1
_PAUSE_FACTOR = 9
"""A round is followed by a pause of this many times its duration."""


class ItemWaits:
    """The waiters of this process by item, and the task that reads the items."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._waits: dict[str, list[asyncio.Future[None]]] = {}
        self._task: asyncio.Task[None] | None = None
        self._renewed_us = 0
        self._name = new_id("wait")

    async def until_closed(self, item_id: str, *, is_stored: bool = False) -> None:
        """Return when the item is closed; raises the errors of reading it.

        `is_stored` means that the wait was stored together with the item.
        """
        async with self._waiting(item_id) as closed:
            # The item may have been closed before this wait began.
            item = await read_current(self._store, item_id)
            if item.status != "open":
                return
            try:
                if not is_stored:
                    await self._renew([item_id], await self._store.now_us())
                await closed
            finally:
                if len(self._waits[item_id]) == 1:
                    with suppress(StoreError):
                        await self.leave(item_id)

    async def _renew(self, item_ids: Sequence[str], now_us: int) -> None:
        """Store that this process is alive and waits for these items."""
        self._renewed_us = now_us
        await self._store.write_documents([self.presence(item_id, now_us) for item_id in item_ids])

    def presence(self, item_id: str, now_us: int) -> DocumentWrite:
        """The write that stores that this process is alive and waits for the item."""
        until = {"until_us": now_us + int(_PRESENT_S * 1e6)}
        return DocumentWrite(collection=WAITS, key=f"{item_id}/{self._name}", body=until)

    async def leave(self, item_id: str) -> bool:
        """Store that this process no longer waits for the item; returns whether another one does.

        The document is removed before the others are read: if several processes leave at the same
        time, at least the last one finds no other.
        """
        gone = DocumentWrite(collection=WAITS, key=f"{item_id}/{self._name}", body=None)
        await self._store.write_documents([gone])
        now_us = await self._store.now_us()
        others = await self._store.list_documents(WAITS, prefix=f"{item_id}/")
        left = [each.key for each in others if each.body["until_us"] <= now_us]
        if left:
            await self._store.write_documents(
                [DocumentWrite(collection=WAITS, key=key, body=None) for key in left]
            )
        return len(left) < len(others)

    async def give_up(self, item_id: str) -> bool:
        """End one wait here; returns whether the item has no waiter any more."""
        return not self._waits.get(item_id) and not await self.leave(item_id)

    def hint(self, item_id: str) -> None:
        """Wake the waiters of an item that was closed."""
        for closed in self._waits.get(item_id, ()):
            if not closed.done():
                closed.set_result(None)

    @asynccontextmanager
    async def _waiting(self, item_id: str) -> AsyncIterator[asyncio.Future[None]]:
        closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waits.setdefault(item_id, []).append(closed)
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name="ekiden-inbox-waiting")
        try:
            yield closed
        finally:
            self._waits[item_id].remove(closed)
            if not self._waits[item_id]:
                del self._waits[item_id]
            if not self._waits and self._task is not None:
                task, self._task = self._task, None
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            begun = monotonic()
            # Started before the read, so that a change during it is not missed.
            hint = asyncio.create_task(self._store.wait_for_change(_READ_EVERY_S))
            try:
                next_s = await self._round()
                took_s = monotonic() - begun
                await asyncio.wait({hint}, timeout=next_s)
            except Exception as exc:
                self._fail(exc)
                took_s = _AFTER_FAILURE_S
            finally:
                hint.cancel()
                await asyncio.gather(hint, return_exceptions=True)
            await asyncio.sleep(max(took_s * _PAUSE_FACTOR, _SHORTEST_PAUSE_S))

    async def _round(self) -> float:
        """Read each item; returns the seconds until the next change by time."""
        now_us = await self._store.now_us()
        nearest_s = _READ_EVERY_S
        if abs(now_us - self._renewed_us) >= _RENEW_EVERY_S * 1e6:
            await self._renew(list(self._waits), now_us)
        for item_id in list(self._waits):
            try:
                item = await read_current(self._store, item_id, now_us=now_us)
            except InboxItemNotFound as exc:
                self._fail(exc, item_id)
                continue
            if item.status != "open":
                self.hint(item_id)
            due = next_due_us(item)
            if due is not None:
                nearest_s = min(nearest_s, max(due - now_us, 0) / 1e6)
        return nearest_s

    def _fail(self, exc: Exception, item_id: str | None = None) -> None:
        for each in list(self._waits) if item_id is None else [item_id]:
            for closed in self._waits.get(each, ()):
                if not closed.done():
                    closed.set_exception(exc)
