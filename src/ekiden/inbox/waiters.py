"""Waits of this process for the end of inbox items: one task reads for all of them.

A signal of the store says only that something changed. So that many waiters on a busy store do not
each read at every change, one task reads for all of them, and pauses after each round for a
multiple of the time that it took. It ends with the last waiter.
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

_LOOK_S = 5.0
"""Look at least so often: a wake-up may be lost."""
_PRESENT_S = 15.0
"""A process that did not say for so long that it waits is gone."""
_SAY_EVERY_S = 5.0
_SHORTEST_REST_S = 0.005
_AFTER_FAILURE_S = 0.1
_REST = 9
"""A round is followed by a rest so many times as long."""


class ItemWaits:
    """Who waits for which item, and the task that looks."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._waits: dict[str, list[asyncio.Future[None]]] = {}
        self._task: asyncio.Task[None] | None = None
        self._said_us = 0
        self._name = new_id("wait")

    async def until_closed(self, item_id: str, *, is_said: bool = False) -> None:
        """Return when the item is not open any more; raises what reading it raises.

        `is_said`: the wait is stored with the item.
        """
        async with self._waiting(item_id) as over:
            # It may have been closed before anybody looked for it.
            item = await read_current(self._store, item_id)
            if item.status != "open":
                return
            try:
                if not is_said:
                    await self._say([item_id], await self._store.now_us())
                await over
            finally:
                if len(self._waits[item_id]) == 1:
                    with suppress(StoreError):
                        await self.leave(item_id)

    async def _say(self, item_ids: Sequence[str], now_us: int) -> None:
        """Store that this process waits for these items, and is alive."""
        self._said_us = now_us
        await self._store.write_documents([self.presence(item_id, now_us) for item_id in item_ids])

    def presence(self, item_id: str, now_us: int) -> DocumentWrite:
        """The document that this process waits for the item, and is alive."""
        until = {"until_us": now_us + int(_PRESENT_S * 1e6)}
        return DocumentWrite(collection=WAITS, key=f"{item_id}/{self._name}", body=until)

    async def leave(self, item_id: str) -> bool:
        """Store that this process no longer waits for the item; returns whether another one does.

        Of several that leave at the same time the last one finds no other.
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
        """The item was closed in this process."""
        for over in self._waits.get(item_id, ()):
            if not over.done():
                over.set_result(None)

    @asynccontextmanager
    async def _waiting(self, item_id: str) -> AsyncIterator[asyncio.Future[None]]:
        over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waits.setdefault(item_id, []).append(over)
        if self._task is None:
            self._task = asyncio.create_task(self._look(), name="ekiden-inbox-waiting")
        try:
            yield over
        finally:
            self._waits[item_id].remove(over)
            if not self._waits[item_id]:
                del self._waits[item_id]
            if not self._waits and self._task is not None:
                task, self._task = self._task, None
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)

    async def _look(self) -> None:
        while True:
            begun = monotonic()
            # Begun before looking, so that what changes meanwhile is not missed.
            hint = asyncio.create_task(self._store.wait_for_change(_LOOK_S))
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
            await asyncio.sleep(max(took_s * _REST, _SHORTEST_REST_S))

    async def _round(self) -> float:
        """Look at each item; how long until one of them changes by itself."""
        now_us = await self._store.now_us()
        nearest_s = _LOOK_S
        if abs(now_us - self._said_us) >= _SAY_EVERY_S * 1e6:
            await self._say(list(self._waits), now_us)
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
            for over in self._waits.get(each, ()):
                if not over.done():
                    over.set_exception(exc)
