"""The task of a bus that reads the store: answers, new messages, and dead processes.

The store signals changes. After a signal, the task reads once for all waiters of this process, and
once for each agent that the process serves. The store also signals changes that this process made,
so the task pauses up to `_LONGEST_PAUSE_S` seconds after reads that find nothing.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping
from contextlib import suppress
from math import inf

from ekiden.bus.parts import BusParts
from ekiden.bus.service import BusService
from ekiden.bus.waits import SETTLED
from ekiden.core.conversation.messages import DEFAULT_TIMEOUT_S
from ekiden.core.errors import EkidenError
from ekiden.storage.records import MessageFilter, MessageSettle

_log = logging.getLogger("ekiden.bus")

_LONGEST_S = 5.0
"""The interval of reads without a signal, which may be lost."""
_SHORTEST_PAUSE_S = 0.001
_LONGEST_PAUSE_S = 0.03
_PAUSE_FACTOR = 9
"""A slow read is followed by a pause of this many times its duration."""
_RETRY_S = 0.1
"""The pause after a failure of the store, which doubles with each failure."""
_KEYS = 500
_CLEAN_EVERY_S = 60.0
_CLEAN_AT_ONCE = 1000


class StoreReader:
    """The task that reads the store. It runs while this process has waits or services."""

    def __init__(self, parts: BusParts, services: Mapping[str, BusService]) -> None:
        self._parts = parts
        self._services = services
        self._task: asyncio.Task[None] | None = None
        self._clean_every_s = min(_CLEAN_EVERY_S, parts.settings.keep_s)
        self._clean_at = parts.loop.time() + self._clean_every_s
        self._overdue_at = inf

    def start(self) -> None:
        """Start the task, unless it runs."""
        if self._task is None or self._task.done():
            self._task = self._parts.loop.create_task(self._run(), name="ekiden-bus-reader")

    async def stop(self) -> None:
        """Stop the task."""
        task, self._task = self._task, None
        if task is not None and not task.done():
            task.cancel()
            await asyncio.wait((task,))

    async def read_answers(self) -> int:
        """End the waits of this process whose messages are settled, and return their number."""
        keys = [*self._parts.waits.keys]
        for service in self._services.values():
            keys.extend(service.later_keys)
        count = 0
        for begin in range(0, len(keys), _KEYS):
            some = frozenset(keys[begin : begin + _KEYS])
            where = MessageFilter(keys=some, states=SETTLED)
            rows = await self._parts.store.find_messages(where, limit=len(some))
            count += self._parts.waits.end_found(rows)
            for row in rows:
                # A message that waits here for `respond` was answered by another process, or
                # cancelled.
                served = self._services.get(row.queue.partition(":")[2])
                if served is not None and row.key is not None:
                    served.drop(row.key)
        return count

    async def _run(self) -> None:
        parts, pause_s, retry_s = self._parts, 0.0, _RETRY_S
        with suppress(EkidenError):
            await parts.store.wait_for_change(0)  # A change before the first wait would be missed.
        while parts.waits or self._services or parts.room:
            began = parts.loop.time()
            try:
                found = await self._read()
                took_s = parts.loop.time() - began
                # A read that found nothing was probably caused by one of our own writes.
                pause_s = (
                    0.0 if found else min(max(2 * pause_s, _SHORTEST_PAUSE_S), _LONGEST_PAUSE_S)
                )
                if pause_s or took_s > _LONGEST_PAUSE_S:
                    await asyncio.sleep(max(pause_s, min(took_s * _PAUSE_FACTOR, 1.0)))
                await parts.store.wait_for_change(self._wait_s())
                retry_s = _RETRY_S
            except Exception as exc:  # Any error: no other task would read messages.
                is_known = isinstance(exc, EkidenError)
                _log.warning(
                    "the bus cannot use its store, trying again: %s",
                    exc,
                    exc_info=None if is_known else exc,
                )
                await asyncio.sleep(retry_s)
                retry_s = min(2 * retry_s, _LONGEST_S)

    async def _read(self) -> int:
        """Do everything that is due; returns the number of answers and messages that were
        found."""
        now = self._parts.loop.time()
        if now >= self._parts.presence.due_at:
            await self._keep_presence()
        # Infinite means that no handler ran at the last check, so one may have started since.
        if now >= self._overdue_at or self._overdue_at == inf:
            self._overdue_at = min(
                (each.stop_overdue() for each in self._services.values()), default=inf
            )
        if now >= self._clean_at:
            self._clean_at = now + self._clean_every_s
            await self._clean()
        found = await self.read_answers()
        for service in list(self._services.values()):
            found += await service.fetch()
        if self._parts.room:
            self._parts.room.wake_some()
        return found

    def _wait_s(self) -> float:
        due = min(self._parts.presence.due_at, self._overdue_at, self._clean_at)
        for service in self._services.values():
            due = min(due, service.retry_at)
        # A handler that starts during the wait may reach its time limit before any other time that
        # is due.
        longest_s = min(self._parts.settings.handler_timeout_s or _LONGEST_S, _LONGEST_S)
        return min(max(due - self._parts.loop.time(), 0.0), longest_s)

    async def _keep_presence(self) -> None:
        """Renew our presence, and take over messages of dead processes."""
        presence = self._parts.presence
        for agent in await presence.renew():
            _log.warning("%s was taken for dead: this process was stopped for too long", agent)
            service = self._services.get(agent)
            if service is not None:
                # Others may have taken its messages. Running handlers are left alone: if another
                # process has the message, the store refuses a retry, and the first answer counts.
                service.return_queued()
        presence.schedule_check()
        for service in list(self._services.values()):
            others, given_back = await presence.reclaim(service.agent)
            service.alone = not others
            if given_back:
                _log.warning(
                    "%d messages of %s are delivered again: the process that handled them died",
                    given_back, service.agent,
                )  # fmt: skip
            service.start_next()

    async def _clean(self) -> None:
        """Remove messages that were settled long ago, and time out queries of dead senders."""
        store = self._parts.store
        now_us = await store.now_us()
        before_us = now_us - int(self._parts.settings.keep_s * 1e6)
        removed = _CLEAN_AT_ONCE
        while removed == _CLEAN_AT_ONCE:
            removed = await store.prune_messages(before_us=before_us, limit=_CLEAN_AT_ONCE)
        await self._end_abandoned(now_us)

    async def _end_abandoned(self, now_us: int) -> None:
        """Time out queries whose sender died before it could do so."""
        after = 0
        while True:
            where = MessageFilter(waited_for=True, states=frozenset({"open"}))
            page = await self._parts.store.find_messages(where, after=after, limit=_CLEAN_AT_ONCE)
            over = [
                row.key
                for row in page
                if row.key is not None
                and row.session_id is None
                # Senders in this process time their queries out themselves. For others one interval
                # is added, so that a living sender is always first.
                and row.key not in self._parts.waits.keys
                and row.created_at_us + (_timeout_s(row.body) + self._clean_every_s) * 1e6 < now_us
            ]
            await self._time_out(over)
            if len(page) < _CLEAN_AT_ONCE:
                return
            after = page[-1].id

    async def _time_out(self, keys: Iterable[str]) -> None:
        settles = [MessageSettle(key=key, state="timed_out") for key in keys]
        if settles:
            await self._parts.store.settle_messages(settles)


def _timeout_s(body: object) -> float:
    timeout_s = body.get("timeout_seconds") if isinstance(body, dict) else None
    return float(timeout_s) if isinstance(timeout_s, int | float) else DEFAULT_TIMEOUT_S
