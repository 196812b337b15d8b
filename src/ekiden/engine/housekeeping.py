"""Background tasks of a worker: timers, outboxes, pruning."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from ekiden.core.errors import StaleDocument, StoreError
from ekiden.runtime.questions.due import see_to_timers
from ekiden.sessions.retention import Retention
from ekiden.storage.base import DocumentWrite, MessageFilter, Store
from ekiden.storage.timers import TIMERS

if TYPE_CHECKING:
    from ekiden.core.conversation.messages import VictimPolicy

_log = logging.getLogger("ekiden.worker")

TIMERS_S = 0.5
"""Between two looks at timers, unless one is due before."""
_LONGEST_S = 10.0
"""After so long they are looked at without a hint."""
_EVERY_S = 60.0
_CIRCLES_S = 20.0
"""How long a circle may last whose last member died before it looked."""
_PRUNE_EVERY_US = 3600 * 1_000_000
_COLLECTION = "housekeeping"
_PRUNED = "pruned"
_CIRCLES = "circles"


class Timekeeping:
    """Time-outs of questions, deadlines of what people are asked; any number of processes may."""

    def __init__(self, store: Store, *, rarely: bool = False) -> None:
        """`rarely`: there are many stores, and each is looked at less often."""
        self._store = store
        self._shortest_s = 4 * TIMERS_S if rarely else TIMERS_S

    async def run(self) -> None:
        """See to timers for ever: when one is due, and soon after one was set."""
        await self._wait_for_change(0)  # A change before the first wait would be missed.
        while True:
            left_s = await self.once()
            await asyncio.sleep(min(left_s, self._shortest_s))
            if left_s > self._shortest_s:
                await self._wait_for_change(left_s - self._shortest_s)

    async def _wait_for_change(self, longest_s: float) -> None:
        with suppress(StoreError):  # The next look tells.
            await self._store.wait_for_change(longest_s, about={TIMERS})

    async def once(self) -> float:
        """See to what is due; gives the seconds after which there may be more.

        Whatever is wrong with a timer must not keep the worker from its sessions.
        """
        try:
            return await see_to_timers(self._store, _LONGEST_S)
        except StoreError as exc:
            _log.warning("timers could not be looked at, trying again: %s", exc)
        except Exception:
            _log.exception("a timer could not be seen to, trying again")
        return self._shortest_s


class Housekeeping:
    """Looks after a store: any number of processes may do so at once."""

    def __init__(
        self, store: Store, retention: Retention, *, policy: VictimPolicy = "longest"
    ) -> None:
        """`policy`: who gives up in a circle of waits."""
        self._store = store
        self._retention = retention
        self._policy = policy

    async def run(self) -> None:
        """Tidy up now and then, for ever; circles of waits are looked for more often."""
        while True:
            await self.once()
            for _ in range(round(_EVERY_S / _CIRCLES_S) - 1):
                await asyncio.sleep(_CIRCLES_S)
                await self._attempt(self._break_circles)
            await asyncio.sleep(_CIRCLES_S)

    async def once(self) -> None:
        """Delete old data, at most once an hour over all processes, update the index of sessions if
        it is used, and break unnoticed deadlocks. Failures are retried the next time."""
        await self._attempt(self._prune)
        await self._attempt(self._index)
        await self._attempt(self._break_circles)

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
        from ekiden.runtime.history.retention import prune_sessions

        if not await self._is_my_turn(_PRUNED, _PRUNE_EVERY_US):
            return
        pruned = await prune_sessions(
            self._store,
            older_than_s=None if rule.days is None else rule.days * 86400,
            keep_last=rule.count,
        )
        _log.info("%s", pruned)

    async def _is_my_turn(self, work: str, every_us: int) -> bool:
        """Whether the work is due and this process does it: of several, one does."""
        now_us = await self._store.now_us()
        document = await self._store.get_document(_COLLECTION, work)
        if document is not None and now_us - document.body["at_us"] < every_us:
            return False
        turn = DocumentWrite(
            collection=_COLLECTION,
            key=work,
            body={"at_us": now_us},
            expected_version=0 if document is None else document.version,
        )
        try:
            await self._store.write_documents([turn])
        except StaleDocument:
            return False
        return True

    async def _break_circles(self) -> None:
        """A new waiter checks for deadlocks itself, unless it dies first."""
        waiting = MessageFilter(waited_for=True, states={"open"})
        if not await self._store.find_messages(waiting, limit=1):
            return
        if not await self._is_my_turn(_CIRCLES, round(_CIRCLES_S * 0.9e6)):
            return
        from ekiden.bus.waits.deadlocks import break_deadlocks

        for each in await break_deadlocks(self._store, policy=self._policy):
            _log.warning("agents waited for each other: %s", " -> ".join(each.cycle))

    async def _index(self) -> None:
        from ekiden.sessions.search import index_sessions, is_indexed

        if await is_indexed(self._store):
            await index_sessions(self._store)
