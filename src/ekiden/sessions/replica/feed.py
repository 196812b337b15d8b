"""Replicates sessions from the store."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import replace

from ekiden.core.errors import SessionNotFound, StoreUnavailable
from ekiden.core.errors.stored_data import ReplicaFailed, ReplicaRefused, ReplicaUnavailable
from ekiden.core.events import Event
from ekiden.core.values import new_id
from ekiden.sessions.replica.base import (
    ReplicaPolicy,
    ReplicaReport,
    ReplicatedSession,
    SessionReplica,
    answered,
    calls_of,
    is_news,
    replicated_event,
)
from ekiden.sessions.replica.progress import (
    DueSession,
    ReplicaLeaseLost,
    ReplicaProgress,
    SentEvents,
)
from ekiden.storage.base import SessionRow, Store

_PAGE = 100
_IDLE_S = 1.0
"""How long a lost hint can delay an event."""
_NEXT_S = 5.0
"""How often to check whether the mirror has no sender any more."""
_IN_A_ROW = 3
"""After so many failures without a success, the mirror is away and left alone."""
_STRIKES = 10
"""So often one event may fail while others go well."""
_MAX_SURE = 10_000

_log = logging.getLogger("ekiden.mirror")


async def replicate_sessions(
    store: Store,
    mirror: SessionReplica,
    *,
    once: bool = False,
    stop: asyncio.Event | None = None,
    policy: ReplicaPolicy | None = None,
) -> ReplicaReport:
    """Send `mirror` all stored events that it does not have, until `stop` is set.

    For example::

        async with open_store("desk.db") as store:
            report = await replicate_sessions(store, mirror, once=True)

    With `once` the call returns after one attempt for every event. The store keeps the position, so
    a later call continues there. If several processes call this function, one process sends, and
    the others wait to take over; with `once` the others return a report with `busy`.

    Failures of the replica are never raised. Each failure is logged once; with `once` the report
    also contains it. Unsent events wait, and the delay between retries grows. An event that the
    replica permanently refuses is skipped, with a log line. Raises `StoreUnavailable` only with
    `once`; otherwise the call waits for the store.
    """
    feeding = _Feeding(store, mirror, once=once, stop=stop or asyncio.Event(), policy=policy)
    return await feeding.run()


class _Feeding:
    def __init__(
        self,
        store: Store,
        mirror: SessionReplica,
        *,
        once: bool,
        stop: asyncio.Event,
        policy: ReplicaPolicy | None,
    ) -> None:
        self._store = store
        self._mirror = mirror
        self._once = once
        self._stop = stop
        self._policy = policy or ReplicaPolicy()
        self._book = ReplicaProgress(
            store, mirror.name, owner=new_id("mir"), lease_s=self._policy.lease_s
        )
        self._sent = 0
        self._set_aside = 0
        self._busy = False
        self._row = 0
        """Failures since the last success."""
        self._pause_s = 0.0
        self._rests_until_us = 0
        self._away = False
        """Whether a round ended without any success."""
        self._hurry = False
        self._sure: set[str] = set()
        """Sessions of which it is known what the mirror has."""
        self._logged: set[str] = set()
        """What was said of failures since the last success."""
        self._sent_before: dict[str, int] = {}
        """For a session that failed, how many had been sent then."""

    async def run(self) -> ReplicaReport:
        """Feed the mirror."""
        while not self._stop.is_set():
            try:
                if await self._book.claim():
                    await self._work()
                else:
                    self._busy = True
                    await self._wait(min(self._policy.lease_s / 3, _NEXT_S))
            except ReplicaLeaseLost:
                _log.warning("%s: another process feeds it now", self._mirror.name)
                self._busy = True
            except StoreUnavailable as exc:
                if self._once:
                    raise
                _log.warning("%s: waiting for the store: %s", self._mirror.name, exc)
                await self._rest_from_store()
            if self._once:
                break
        return ReplicaReport(
            sent=self._sent,
            set_aside=self._set_aside,
            waiting=await self._waiting(),
            problem=self._book.problem,
            busy=self._busy,
        )

    async def _work(self) -> None:
        """Feed it as long as this process is the one."""
        self._busy = False
        self._sure.clear()
        try:
            while not self._stop.is_set():
                # Begun before looking, so that a change between looking and waiting is not missed.
                hint = asyncio.create_task(self._store.wait_for_change(_IDLE_S))
                try:
                    await self._book.keep()
                    moved = await self._read()
                    delivered = await self._deliver()
                    if delivered:
                        await self._book.count()
                    if self._once:
                        return
                    if not (moved or delivered):
                        await self._wait(_IDLE_S, hint)
                finally:
                    hint.cancel()
                    await asyncio.gather(hint, return_exceptions=True)
        finally:
            await self._book.release()

    async def _read(self) -> bool:
        """Note which sessions have news, up to the end of the feed; whether any has."""
        moved = False
        while not self._stop.is_set():
            page = await self._store.feed(after=self._book.cursor, limit=_PAGE)
            if not page.events:
                break
            news = {event.session_id for event in page.events if is_news(event)}
            await self._book.move(page.next_cursor, sorted(news))
            moved = moved or bool(news)
        return moved

    async def _deliver(self) -> bool:
        """Catch up with the sessions that are due; whether anything was sent."""
        now_us = await self._store.now_us()
        if now_us < self._rests_until_us and not self._once:
            return False
        before, self._row = self._sent, 0
        hurry, self._hurry = self._hurry or self._once, False
        lock = asyncio.Lock()
        async with aclosing(self._due_now(now_us, hurry=hurry)) as queue:

            async def work() -> None:
                while self._row < _IN_A_ROW and not self._stop.is_set():
                    async with lock:
                        due = await anext(queue, None)
                    if due is None:
                        return
                    await self._attempt(due, is_early=due.next_us > now_us)

            await _together(work, self._policy.parallel)
        self._away = self._away or (self._row > 0 and self._sent == before)
        return self._sent > before

    async def _due_now(self, now_us: int, *, hurry: bool) -> AsyncGenerator[DueSession, None]:
        after = ""
        while page := await self._book.due(after):
            for due in page:
                if hurry or due.next_us <= now_us:
                    yield due
            after = page[-1].session_id

    async def _attempt(self, due: DueSession, *, is_early: bool) -> None:
        try:
            await self._catch_up(due)
        except ReplicaFailed as exc:
            await self._failed(due, exc, is_early=is_early)

    async def _catch_up(self, due: DueSession) -> None:
        """Send what is new in a session."""
        try:
            row = await self._store.get(due.session_id)
        except SessionNotFound:
            await self._book.forget(due)
            return
        progress = stored = await self._book.progress(row)
        tools: dict[str, str] = {}
        while events := await self._store.events(row.id, after=progress.seq, limit=_PAGE):
            for event in events:
                if self._stop.is_set():
                    return
                tools.update(calls_of(event))
                if is_news(event):
                    await self._name_tools(row, event, tools)
                    progress = stored = await self._send(row, event, progress, tools)
                else:
                    progress = replace(progress, seq=event.seq)
        if progress != stored:
            await self._book.save(progress)
        await self._book.settle(due)

    async def _name_tools(self, row: SessionRow, event: Event, tools: dict[str, str]) -> None:
        """Find the names of the tools that the event answers for."""
        unnamed = [call_id for call_id in answered(event) if call_id not in tools]
        if not unnamed:
            return
        told = (event.details or {}).get("tool")
        if len(unnamed) == 1 and isinstance(told, str):
            tools[unnamed[0]] = told
            return
        for earlier in await self._store.events(row.id, with_items=True):
            tools.update(calls_of(earlier))

    async def _send(
        self, row: SessionRow, event: Event, progress: SentEvents, tools: dict[str, str]
    ) -> SentEvents:
        """Send one event, and store that it was sent."""
        await self._book.keep()
        at_us = max(event.at_us, progress.last_us + 1)
        mirrored = replicated_event(
            event,
            at_us=at_us,
            tools={call_id: tools[call_id] for call_id in answered(event) if call_id in tools},
            include_sensitive_data=self._policy.include_sensitive_data,
        )
        session = ReplicatedSession(
            id=row.id,
            user_id=row.user_id,
            created_at_us=row.created_at_us,
            kept=progress.kept,
        )
        again = row.id not in self._sure
        self._sure.discard(row.id)
        try:
            async with asyncio.timeout(self._policy.send_timeout_s):
                kept = await self._mirror.send(session, mirrored, again=again)
        except ReplicaRefused as exc:
            # One that refuses everything is not set up as it should be.
            if not self._book.sent:
                raise
            return await self._put_aside(event, progress, exc)
        except ReplicaFailed as exc:
            if progress.strikes + 1 >= _STRIKES and self._others_went_well(row.id):
                return await self._put_aside(event, progress, exc)
            raise
        except TimeoutError as exc:
            late = f"no answer within {self._policy.send_timeout_s:g} seconds"
            raise ReplicaUnavailable(self._mirror.name, late) from exc
        except Exception as exc:
            # A mirror that breaks its promise must not end the others.
            raise ReplicaUnavailable(self._mirror.name, f"{type(exc).__name__}: {exc}") from exc
        await self._went_well(row.id)
        return await self._book.save(
            replace(
                progress,
                seq=event.seq,
                last_us=at_us + max(len(event.items), 1),
                strikes=0,
                kept=kept,
            )
        )

    async def _put_aside(
        self, event: Event, progress: SentEvents, exc: ReplicaFailed
    ) -> SentEvents:
        _log.warning("%s: the event %s is set aside: %s", exc.mirror, event.event_id, exc.problem)
        self._set_aside += 1
        self._book.set_aside += 1
        note = self._book.aside(event.event_id, exc.problem, await self._store.now_us())
        self._sent_before.pop(progress.session_id, None)
        return await self._book.save(replace(progress, seq=event.seq, strikes=0), aside=note)

    async def _went_well(self, session_id: str) -> None:
        self._sent += 1
        self._book.sent += 1
        self._row, self._pause_s, self._rests_until_us = 0, 0.0, 0
        self._logged.clear()
        self._sent_before.pop(session_id, None)
        if self._away:
            # Those that wait for their next attempt need not wait any longer.
            self._away, self._hurry = False, True
            _log.warning("%s: it takes events again", self._mirror.name)
        await self._book.note(None)
        if len(self._sure) >= _MAX_SURE:
            self._sure.clear()
        self._sure.add(session_id)

    def _others_went_well(self, session_id: str) -> bool:
        """Whether anything was sent since the session failed last."""
        return self._sent > self._sent_before.get(session_id, self._sent)

    async def _failed(self, due: DueSession, exc: ReplicaFailed, *, is_early: bool) -> None:
        """The session has to wait; after some failures in a row, everybody has."""
        if not (self._once or due.tries or self._away or str(exc) in self._logged):
            self._logged.add(str(exc))
            _log.warning("%s; unsent events wait", exc)
        await self._book.note(exc.problem[:500])
        now_us = await self._store.now_us()
        if not is_early:
            await self._strike(due)
            own_s = self._varied(self._policy.first_pause_s * 2.0 ** min(due.tries, 20))
            await self._book.postpone(due, next_us=now_us + int(own_s * 1e6))
        self._row += 1
        pause_s = exc.retry_after_s or 0.0 if isinstance(exc, ReplicaUnavailable) else 0.0
        if self._row == _IN_A_ROW:
            self._pause_s = max(2 * self._pause_s, self._policy.first_pause_s)
            pause_s = max(pause_s, self._pause_s)
        if pause_s:
            self._rests_until_us = now_us + int(self._varied(pause_s) * 1e6)

    async def _strike(self, due: DueSession) -> None:
        """Count a failure against the event, if others went well meanwhile."""
        if self._others_went_well(due.session_id):
            try:
                progress = await self._book.progress(await self._store.get(due.session_id))
            except SessionNotFound:
                return
            await self._book.save(replace(progress, strikes=progress.strikes + 1))
        self._sent_before[due.session_id] = self._sent

    def _varied(self, seconds: float) -> float:
        """A pause, no longer than the longest and not for all the same."""
        return min(seconds, self._policy.longest_pause_s) * random.uniform(0.5, 1.0)

    async def _wait(self, seconds: float, hint: asyncio.Task[None] | None = None) -> None:
        """For the hint, for `stop`, or so long."""
        if self._once:
            return
        stopping = asyncio.create_task(self._stop.wait())
        try:
            waits = {stopping} if hint is None else {stopping, hint}
            await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopping.cancel()
            await asyncio.gather(stopping, return_exceptions=True)

    async def _rest_from_store(self) -> None:
        self._pause_s = max(2 * self._pause_s, self._policy.first_pause_s)
        await self._wait(self._varied(self._pause_s))

    async def _waiting(self) -> int:
        count, after = 0, ""
        try:
            while page := await self._book.due(after):
                count += len(page)
                after = page[-1].session_id
        except StoreUnavailable:
            if self._once:
                raise
        return count


async def _together(work: Callable[[], Awaitable[None]], count: int) -> None:
    """Several times at once; the first error ends them all."""
    tasks = [asyncio.ensure_future(work()) for _ in range(count)]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
