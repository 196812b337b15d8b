"""The one task of a bus that reads the store: for answers, for messages, and for dead processes.

The store signals changes; one read then serves all waiters of this process, and one each agent that
it serves. Our own changes are signalled as well. So reads that find nothing are made less often, up
to a few hundredths of a second apart.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping
from contextlib import suppress
from math import inf

from ekiden.bus.parts import BusParts
from ekiden.bus.serving.service import BusService
from ekiden.bus.waits.waiters import SETTLED
from ekiden.core.conversation.messages import DEFAULT_TIMEOUT_S
from ekiden.core.errors import EkidenError
from ekiden.storage.records import MessageFilter, MessageSettle

_log = logging.getLogger("ekiden.bus")

_LONGEST_S = 5.0
"""A hint may be lost: so often it is looked without one."""
_SHORTEST_PAUSE_S = 0.001
_LONGEST_PAUSE_S = 0.03
_SHARE = 9
"""A look that took long is followed by so many times as long without one."""
_TROUBLE_S = 0.1
"""How long to wait when the store cannot be reached; doubled every time."""
_KEYS = 500
_CLEAN_EVERY_S = 60.0
_CLEAN_AT_ONCE = 1000


class Rounds:
    """Runs while there are waits or services here."""

    def __init__(self, parts: BusParts, services: Mapping[str, BusService]) -> None:
        self._parts = parts
        self._services = services
        self._task: asyncio.Task[None] | None = None
        self._clean_every_s = min(_CLEAN_EVERY_S, parts.settings.keep_s)
        self._clean_at = parts.loop.time() + self._clean_every_s
        self._overdue_at = inf

    def start(self) -> None:
        """Begin, unless it runs."""
        if self._task is None or self._task.done():
            self._task = self._parts.loop.create_task(self._run(), name="ekiden-bus-rounds")

    async def stop(self) -> None:
        """Look no more."""
        task, self._task = self._task, None
        if task is not None and not task.done():
            task.cancel()
            await asyncio.wait((task,))

    async def look_for_answers(self) -> int:
        """End the waits of this process that are settled in the store; how many."""
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
                # Answered by another process, or withdrawn: a message that waits here for `respond`
                # is over.
                served = self._services.get(row.queue.partition(":")[2])
                if served is not None and row.key is not None:
                    served.drop(row.key)
        return count

    async def _run(self) -> None:
        parts, pause_s, trouble_s = self._parts, 0.0, _TROUBLE_S
        with suppress(EkidenError):
            await parts.store.wait_for_change(0)  # A change before the first wait would be missed.
        while parts.waits or self._services or parts.room:
            began = parts.loop.time()
            try:
                found = await self._look()
                took_s = parts.loop.time() - began
                # Our own writes are signalled as well; a look that found nothing was probably about
                # one of them.
                pause_s = (
                    0.0 if found else min(max(2 * pause_s, _SHORTEST_PAUSE_S), _LONGEST_PAUSE_S)
                )
                if pause_s or took_s > _LONGEST_PAUSE_S:
                    await asyncio.sleep(max(pause_s, min(took_s * _SHARE, 1.0)))
                await parts.store.wait_for_change(self._patience_s())
                trouble_s = _TROUBLE_S
            except Exception as exc:  # Nobody else would look for messages.
                is_known = isinstance(exc, EkidenError)
                _log.warning(
                    "the bus cannot use its store, trying again: %s",
                    exc,
                    exc_info=None if is_known else exc,
                )
                await asyncio.sleep(trouble_s)
                trouble_s = min(2 * trouble_s, _LONGEST_S)

    async def _look(self) -> int:
        """How much there was."""
        now = self._parts.loop.time()
        if now >= self._parts.presence.due_at:
            await self._tend()
        # Infinite means that nothing ran at the last look, so there may be a first limit by now.
        if now >= self._overdue_at or self._overdue_at == inf:
            self._overdue_at = min(
                (each.stop_overdue() for each in self._services.values()), default=inf
            )
        if now >= self._clean_at:
            self._clean_at = now + self._clean_every_s
            await self._clean()
        found = await self.look_for_answers()
        for service in list(self._services.values()):
            found += await service.fetch()
        if self._parts.room:
            self._parts.room.maybe()
        return found

    def _patience_s(self) -> float:
        due = min(self._parts.presence.due_at, self._overdue_at, self._clean_at)
        for service in self._services.values():
            due = min(due, service.retry_at)
        longest_s = min(self._parts.settings.handler_timeout_s or _LONGEST_S, _LONGEST_S)
        return min(max(due - self._parts.loop.time(), 0.0), longest_s)

    async def _tend(self) -> None:
        """Stay present, and see who is not any more."""
        presence = self._parts.presence
        for agent in await presence.renew():
            _log.warning("%s was taken for dead: this process was stopped for too long", agent)
            service = self._services.get(agent)
            if service is not None:
                # Others may have taken its messages; those that run are left, and the store refuses
                # their ends if so.
                service.return_queued()
        presence.next_look()
        for service in list(self._services.values()):
            others, given_back = await presence.bury(service.agent)
            service.alone = not others
            if given_back:
                _log.warning(
                    "%d messages of %s are delivered again: the process that had them died",
                    given_back, service.agent,
                )  # fmt: skip
            service.go_on()

    async def _clean(self) -> None:
        """Remove messages that ended long ago, and end queries without an asker."""
        store = self._parts.store
        now_us = await store.now_us()
        before_us = now_us - int(self._parts.settings.keep_s * 1e6)
        removed = _CLEAN_AT_ONCE
        while removed == _CLEAN_AT_ONCE:
            removed = await store.prune_messages(before_us=before_us, limit=_CLEAN_AT_ONCE)
        await self._end_forsaken(now_us)

    async def _end_forsaken(self, now_us: int) -> None:
        """Time out queries whose asker died before it could."""
        after = 0
        while True:
            where = MessageFilter(waited_for=True, states=frozenset({"open"}))
            page = await self._parts.store.find_messages(where, after=after, limit=_CLEAN_AT_ONCE)
            over = [
                row.key
                for row in page
                if row.key is not None
                and row.session_id is None
                # An asker in this process keeps its own time. For others one round of cleaning is
                # added, so that a living asker is always first.
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
