"""The replication of sessions from the store to a replica."""

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
from ekiden.sessions.replica import (
    ReplicaPolicy,
    ReplicaReport,
    ReplicatedSession,
    SessionReplica,
    calls_of,
    is_replicated,
    replicated_event,
    result_ids,
)
from ekiden.sessions.replica_progress import DueSession, ReplicaProgress, SentEvents
from ekiden.storage.base import SessionRow, Store
from ekiden.storage.feed_position import FeedPositionLost, wait_for_stop

_PAGE = 100
_IDLE_S = 1.0
"""The maximum delay of an event after a lost hint of a change."""
_NEXT_S = 5.0
"""The interval of checks whether the replica still has a sender."""
_IN_A_ROW = 3
"""After this many failures without a success, nothing is sent for a while."""
_STRIKES = 10
"""An event that fails this often while others succeed is set aside."""
_MAX_CONFIRMED = 10_000

_log = logging.getLogger("ekiden.mirror")


async def replicate_sessions(
    store: Store,
    mirror: SessionReplica,
    *,
    once: bool = False,
    stop: asyncio.Event | None = None,
    policy: ReplicaPolicy | None = None,
) -> ReplicaReport:
    """Send all stored events that the replica `mirror` does not have yet. Then send new events
    until `stop` is set.

    For example::

        async with open_store("desk.db") as store:
            report = await replicate_sessions(store, mirror, once=True)

    With `once`, the call returns after one attempt to send every event. The position of the replica
    is stored, so a later call continues there. If several processes call this function, one process
    sends, and the others wait to take over. With `once`, the others return immediately, with `busy`
    set in the report.

    A failure of the replica never raises an exception. The failure is logged once; with `once`, the
    report also contains it. Unsent events are sent again after growing delays. An event that the
    replica permanently refuses is logged and skipped. If the store is unavailable, the call waits
    for the store. With `once`, the call raises `StoreUnavailable` instead.
    """
    sender = _Sender(store, mirror, once=once, stop=stop or asyncio.Event(), policy=policy)
    return await sender.run()


class _Sender:
    """Sends the events of one store to one replica."""

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
        self._failures = 0
        """The number of failures since the last success."""
        self._pause_s = 0.0
        self._paused_until_us = 0
        self._is_away = False
        """Whether a round ended without any success."""
        self._skip_delays = False
        """Whether the next round ignores the retry times of sessions."""
        self._confirmed: set[str] = set()
        """Sessions whose last event the replica confirmed to this process."""
        self._logged: set[str] = set()
        """The failures that were logged since the last success."""
        self._sent_before: dict[str, int] = {}
        """The value of `_sent` at the last failure of each session."""

    async def run(self) -> ReplicaReport:
        """Send until `stop`, or with `once` one round."""
        while not self._stop.is_set():
            try:
                if await self._book.claim():
                    await self._work()
                else:
                    self._busy = True
                    await self._wait(min(self._policy.lease_s / 3, _NEXT_S))
            except FeedPositionLost:
                _log.warning("%s: another process sends events to it", self._mirror.name)
                self._busy = True
            except StoreUnavailable as exc:
                if self._once:
                    raise
                _log.warning("%s: waiting for the store: %s", self._mirror.name, exc)
                self._pause_s = max(2 * self._pause_s, self._policy.first_pause_s)
                await self._wait(self._with_jitter(self._pause_s))
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
        """Send while this process has the lease."""
        self._busy = False
        self._confirmed.clear()
        try:
            while not self._stop.is_set():
                # Started before the read, so that a change between read and wait is not missed.
                hint = asyncio.create_task(self._store.wait_for_change(_IDLE_S))
                try:
                    await self._book.keep()
                    moved = await self._read()
                    delivered = await self._deliver()
                    if delivered:
                        await self._book.save()
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
        """Store which sessions have new events, up to the end of the feed; returns whether any
        has."""
        moved = False
        while not self._stop.is_set():
            page = await self._store.feed(after=self._book.cursor, limit=_PAGE)
            if not page.events:
                break
            changed = {event.session_id for event in page.events if is_replicated(event)}
            await self._book.move(page.next_cursor, sorted(changed))
            moved = moved or bool(changed)
        return moved

    async def _deliver(self) -> bool:
        """Send the new events of due sessions; returns whether any event was sent."""
        now_us = await self._store.now_us()
        if now_us < self._paused_until_us and not self._once:
            return False
        before, self._failures = self._sent, 0
        is_all, self._skip_delays = self._skip_delays or self._once, False
        # An async generator raises an error if two tasks ask it for the next value at the same
        # time.
        lock = asyncio.Lock()
        async with aclosing(self._due_now(now_us, is_all=is_all)) as queue:

            async def work() -> None:
                while self._failures < _IN_A_ROW and not self._stop.is_set():
                    async with lock:
                        due = await anext(queue, None)
                    if due is None:
                        return
                    await self._attempt(due, is_early=due.next_us > now_us)

            await _run_concurrently(work, self._policy.parallel)
        self._is_away = self._is_away or (self._failures > 0 and self._sent == before)
        return self._sent > before

    async def _due_now(self, now_us: int, *, is_all: bool) -> AsyncGenerator[DueSession, None]:
        after = ""
        while page := await self._book.due(after):
            for due in page:
                if is_all or due.next_us <= now_us:
                    yield due
            after = page[-1].session_id

    async def _attempt(self, due: DueSession, *, is_early: bool) -> None:
        try:
            await self._catch_up(due)
        except ReplicaFailed as exc:
            await self._failed(due, exc, is_early=is_early)

    async def _catch_up(self, due: DueSession) -> None:
        """Send the new events of a session."""
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
                if is_replicated(event):
                    await self._find_tool_names(row, event, tools)
                    progress = stored = await self._send(row, event, progress, tools)
                else:
                    progress = replace(progress, seq=event.seq)
        if progress != stored:
            await self._book.save_progress(progress)
        await self._book.settle(due)

    async def _find_tool_names(self, row: SessionRow, event: Event, tools: dict[str, str]) -> None:
        """Add the names of the tools whose results the event has."""
        unnamed = [call_id for call_id in result_ids(event) if call_id not in tools]
        if not unnamed:
            return
        tool = (event.details or {}).get("tool")
        if len(unnamed) == 1 and isinstance(tool, str):
            tools[unnamed[0]] = tool
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
            tools={call_id: tools[call_id] for call_id in result_ids(event) if call_id in tools},
            include_sensitive_data=self._policy.include_sensitive_data,
        )
        session = ReplicatedSession(
            id=row.id, user_id=row.user_id, created_at_us=row.created_at_us, kept=progress.kept
        )
        # Until the replica confirms an event, it is unknown whether it got the previous one.
        again = row.id not in self._confirmed
        self._confirmed.discard(row.id)
        try:
            async with asyncio.timeout(self._policy.send_timeout_s):
                kept = await self._mirror.send(session, mirrored, again=again)
        except ReplicaRefused as exc:
            # A replica that never accepted an event is not configured correctly.
            if not self._book.sent:
                raise
            return await self._put_aside(event, progress, exc)
        except ReplicaFailed as exc:
            if progress.strikes + 1 >= _STRIKES and self._others_succeeded(row.id):
                return await self._put_aside(event, progress, exc)
            raise
        except TimeoutError as exc:
            late = f"no answer within {self._policy.send_timeout_s:g} seconds"
            raise ReplicaUnavailable(self._mirror.name, late) from exc
        except Exception as exc:
            # An unexpected error of one session must not stop the others.
            raise ReplicaUnavailable(self._mirror.name, f"{type(exc).__name__}: {exc}") from exc
        await self._succeeded(row.id)
        return await self._book.save_progress(
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
        _log.warning(
            "%s: event %s was rejected for good: %s", exc.mirror, event.event_id, exc.problem
        )
        self._set_aside += 1
        self._book.skipped += 1
        note = self._book.aside(event.event_id, exc.problem, await self._store.now_us())
        self._sent_before.pop(progress.session_id, None)
        return await self._book.save_progress(
            replace(progress, seq=event.seq, strikes=0), aside=note
        )

    async def _succeeded(self, session_id: str) -> None:
        self._sent += 1
        self._book.sent += 1
        self._failures, self._pause_s, self._paused_until_us = 0, 0.0, 0
        self._logged.clear()
        self._sent_before.pop(session_id, None)
        if self._is_away:
            # The other sessions need not wait for their retry times any longer.
            self._is_away, self._skip_delays = False, True
            _log.warning("%s: it accepts events again", self._mirror.name)
        await self._book.note(None)
        if len(self._confirmed) >= _MAX_CONFIRMED:
            self._confirmed.clear()
        self._confirmed.add(session_id)

    def _others_succeeded(self, session_id: str) -> bool:
        """Whether any event was sent since the last failure of the session."""
        return self._sent > self._sent_before.get(session_id, self._sent)

    async def _failed(self, due: DueSession, exc: ReplicaFailed, *, is_early: bool) -> None:
        """Postpone the session; after `_IN_A_ROW` failures, all sessions."""
        if not (self._once or due.tries or self._is_away or str(exc) in self._logged):
            self._logged.add(str(exc))
            _log.warning("%s; unsent events wait", exc)
        await self._book.note(exc.problem[:500])
        now_us = await self._store.now_us()
        # An early attempt, after an outage, does not lengthen the session's own delay.
        if not is_early:
            await self._count_failure(due)
            own_s = self._with_jitter(self._policy.first_pause_s * 2.0 ** min(due.tries, 20))
            await self._book.postpone(due, next_us=now_us + int(own_s * 1e6))
        self._failures += 1
        pause_s = exc.retry_after_s or 0.0 if isinstance(exc, ReplicaUnavailable) else 0.0
        if self._failures == _IN_A_ROW:
            self._pause_s = max(2 * self._pause_s, self._policy.first_pause_s)
            pause_s = max(pause_s, self._pause_s)
        if pause_s:
            self._paused_until_us = now_us + int(self._with_jitter(pause_s) * 1e6)

    async def _count_failure(self, due: DueSession) -> None:
        """Count a failure against the event, if others succeeded meanwhile: otherwise the replica
        is at fault, not the event."""
        if self._others_succeeded(due.session_id):
            try:
                progress = await self._book.progress(await self._store.get(due.session_id))
            except SessionNotFound:
                return
            await self._book.save_progress(replace(progress, strikes=progress.strikes + 1))
        self._sent_before[due.session_id] = self._sent

    def _with_jitter(self, seconds: float) -> float:
        """The delay, limited by the policy, with jitter."""
        return min(seconds, self._policy.longest_pause_s) * random.uniform(0.5, 1.0)

    async def _wait(self, seconds: float, hint: asyncio.Task[None] | None = None) -> None:
        """Wait for the hint, for `stop`, or for `seconds`."""
        if not self._once:
            await wait_for_stop(self._stop, seconds, hint)

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


async def _run_concurrently(work: Callable[[], Awaitable[None]], count: int) -> None:
    """Run `work` several times at once; the first error cancels all."""
    tasks = [asyncio.ensure_future(work()) for _ in range(count)]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
