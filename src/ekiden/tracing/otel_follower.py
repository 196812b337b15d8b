"""Sends every span of a store to a collector when it ends, and stores the position in the feed."""

from __future__ import annotations

import asyncio
import logging
import random
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ekiden.core.errors import SessionNotFound, StoreUnavailable
from ekiden.core.events import Event
from ekiden.core.values import new_id
from ekiden.storage.base import EventPage, SessionRow, Store
from ekiden.storage.feed_position import FeedPosition, FeedPositionLost, wait_for_stop
from ekiden.storage.records import is_copied
from ekiden.tracing.builder import SpanBuilder
from ekiden.tracing.lookup import builder_for, trace_context
from ekiden.tracing.otel_exporter import (
    OtelSpans,
    OtlpReport,
    OtlpSender,
    Sent,
    batches,
    is_disabled,
)
from ekiden.tracing.spans import Span, SpanDraft

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan


PLACES = "otel.exporters"
"""The collection with the positions of exporters. The key of a document is the name of the
exporter."""
_PAGE = 1000
_MOST_SESSIONS = 1000
_log = logging.getLogger("ekiden.tracing")
_sending_log = logging.getLogger("ekiden.otel")
_IDLE_S = 1.0
"""The maximum delay of a span after a lost hint of a change."""


class EndedSpans:
    """Finds the spans of a session that end with each event. The result depends only on the events,
    so it is the same after a restart."""

    def __init__(self, builder: SpanBuilder, *, first: int = 1, is_wanted: bool = True) -> None:
        """`first` is the number of the session's first own event; a fork copied the events before
        it. If `is_wanted` is false, no spans are found."""
        self._builder = builder
        self._first = first
        self._is_wanted = is_wanted
        self._held: SpanDraft | None = None
        """A handoff that ended before its target's first event, so that its link is unknown."""
        self.last_seq = 0

    @property
    def top(self) -> tuple[str, str | None]:
        """The ids of the session's span and of its parent."""
        return self._builder.session.id, self._builder.session.parent_id

    def add(self, event: Event) -> list[Span]:
        """Process the next event, and return the spans that end with this event."""
        self.last_seq = event.seq
        if event.seq < self._first or not self._is_wanted:
            return []
        builder = self._builder
        builder.add(event)
        ended = [part for is_start, part in builder.take() if not is_start]
        held = self._held
        if held is not None and (builder.arriving is not held or builder.run is None):
            ended.append(held)
            self._held = None
        if builder.arriving in ended and builder.run is not None:
            self._held = builder.arriving
        return [builder.span(part) for part in ended if part is not self._held]


@dataclass(slots=True, kw_only=True)
class Ended:
    """Ended spans, and the parents of their sessions."""

    spans: list[Span] = field(default_factory=list)
    tops: dict[str, str | None] = field(default_factory=dict)
    """The parents of sessions, by the ids of the sessions' spans."""


class FeedSpans:
    """Finds the ended spans in a store's feed. The state of recently used sessions is kept in
    memory. The state of other sessions is read from the store again."""

    def __init__(self, store: Store, *, most: int = _MOST_SESSIONS) -> None:
        self._store = store
        self._most = most
        self._known: OrderedDict[str, EndedSpans] = OrderedDict()

    async def read(self, events: Iterable[Event]) -> Ended:
        """Return the spans that end with these events. The events must follow the events of the
        last call.

        Deleted sessions have no spans. A session whose events cannot be read is logged and left
        out.
        """
        by_session: dict[str, list[Event]] = {}
        for event in events:
            if event.session_id:
                by_session.setdefault(event.session_id, []).append(event)
        found = Ended()
        for session_id, own in by_session.items():
            session = await self._session(session_id, own[0].seq)
            if session is None:
                continue
            try:
                for event in own:
                    found.spans += session.add(event)
            except Exception:
                _log.exception("session %s cannot be traced", session_id)
                self._known.pop(session_id, None)
                continue
            top, parent_id = session.top
            found.tops[top] = parent_id
        return found

    async def _session(self, session_id: str, seq: int) -> EndedSpans | None:
        """The session's state before event `seq`; `None` if the session was deleted."""
        known = self._known.get(session_id)
        if known is None or known.last_seq != seq - 1:
            known = await self._replayed(session_id, seq)
            if known is None:
                self._known.pop(session_id, None)
                return None
            self._known[session_id] = known
            if len(self._known) > self._most:
                self._known.popitem(last=False)
        self._known.move_to_end(session_id)
        return known

    async def _replayed(self, session_id: str, seq: int) -> EndedSpans | None:
        try:
            row = await self._store.get(session_id)
        except SessionNotFound:
            return None
        context = await trace_context(self._store, row)
        session = EndedSpans(
            builder_for(row, context, is_live=True),
            first=await self._first_own(row),
            is_wanted=context.is_sampled,
        )
        while session.last_seq < seq - 1:
            limit = min(seq - 1 - session.last_seq, _PAGE)
            page = await self._store.events(session_id, after=session.last_seq, limit=limit)
            if not page:
                break
            try:
                for event in page:
                    session.add(event)
            except Exception:
                _log.exception("session %s cannot be traced", session_id)
                return None
        return session

    async def _first_own(self, row: SessionRow) -> int:
        """The number of the first event that a fork did not copy, as in `own_events`."""
        last = row.meta.get("forked_at") if "forked_from" in row.meta else None
        if not isinstance(last, int):
            return 1
        for event in await self._store.events(row.id, after=max(last - 1, 0), limit=1):
            return last + is_copied(row, event)
        return last


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowPolicy:
    """Batch sizes and delays of a follower."""

    page: int = 200
    """The number of events that are read at a time."""
    first_pause_s: float = 1.0
    """The delay after the first failure, in seconds. The delay doubles with each failure."""
    longest_pause_s: float = 60.0
    lease_s: float = 30.0
    """After this many seconds without a heartbeat, another process takes over."""


class OtelFollower:
    """Sends the spans of a store to a collector until it is stopped.

    Each server or worker runs one follower for each store. If several processes use one store, one
    process sends, and the others wait to take over. The first follower of a store sends only new
    spans. To send older spans, use `from_start` or `ekiden trace SESSION --otlp`::

        follower = OtelFollower(store)
        task = asyncio.create_task(follower.run())
        ...
        follower.stop()
        await task
    """

    def __init__(
        self,
        store: Store,
        *,
        endpoint: str | None = None,
        content: bool | None = None,
        attributes: Mapping[str, str] | None = None,
        name: str = "default",
        from_start: bool = False,
        policy: FollowPolicy | None = None,
    ) -> None:
        """`endpoint` and `content` work as in `export_otlp`.

        `attributes` are added to every span, for example a tenant. If followers of one store send
        to different collectors, give each a different `name`. Raises `UserError` without the extra
        ``otel``.
        """
        self._store = store
        self._policy = policy or FollowPolicy()
        self._from_start = from_start
        self._maker = OtelSpans(content=content, attributes=attributes)
        self._sender = OtlpSender(endpoint=endpoint)
        self._place = FeedPosition(
            store,
            PLACES,
            name,
            name=name,
            owner=new_id("otl"),
            lease_s=self._policy.lease_s,
            skipped="refused",
        )
        self._stopping = asyncio.Event()
        self._once = False
        self._sent = self._refused = 0
        self._pause_s = 0.0

    @property
    def report(self) -> OtlpReport:
        """The numbers of spans that this follower has sent so far, and the problem that stops it,
        if any."""
        return OtlpReport(sent=self._sent, refused=self._refused, problem=self._place.problem)

    def stop(self) -> None:
        """Make `run` return soon, even in the middle of a batch. The next follower sends this batch
        again."""
        self._stopping.set()
        self._sender.close()

    async def run(self, *, once: bool = False) -> OtlpReport:
        """Send spans until `stop` is called. With `once`, return as soon as all spans are sent or a
        batch has failed.

        A failure of the collector never raises an exception. Each outage is logged once, and unsent
        spans are sent later. If the store is unavailable, the call waits for the store. With
        `once`, the call raises `StoreUnavailable` instead.
        """
        self._once = once
        if is_disabled():
            return OtlpReport(is_disabled=True)
        try:
            while not self._stopping.is_set():
                await self._attempt()
                if once:
                    break
        finally:
            self._sender.close()
        return self.report

    async def _attempt(self) -> None:
        """Claim the position and send; or wait, if another process has it."""
        try:
            if await self._place.claim(from_start=self._from_start):
                await self._follow()
            else:
                await self._wait(self._policy.lease_s / 3)
        except FeedPositionLost:
            _sending_log.warning("another process sends traces now")
        except StoreUnavailable as exc:
            if self._once:
                raise
            _sending_log.warning("traces wait for the store: %s", exc)
            await self._wait(self._next_pause())

    async def _follow(self) -> None:
        sessions = FeedSpans(self._store)
        try:
            while not self._stopping.is_set():
                # Started before the read, so that a change between read and wait is not missed.
                hint = asyncio.create_task(self._store.wait_for_change(_IDLE_S))
                try:
                    await self._place.keep()
                    page = await self._store.feed(after=self._place.cursor, limit=self._policy.page)
                    if page.events:
                        if not await self._send_page(page, sessions):
                            return
                    elif self._once:
                        return
                    else:
                        await self._wait(_IDLE_S, hint)
                finally:
                    hint.cancel()
                    await asyncio.gather(hint, return_exceptions=True)
        finally:
            with suppress(StoreUnavailable):
                await self._place.release()

    async def _send_page(self, page: EventPage, sessions: FeedSpans) -> bool:
        """Send the spans that the events end, and store the position; false if that was stopped."""
        ended = await sessions.read(page.events)
        ready = await asyncio.to_thread(self._maker.readable, ended.spans, tops=ended.tops)
        sent = refused = 0
        for batch in batches(ready):
            result = await self._send_with_retries(batch)
            if result is None:
                return False
            sent, refused = sent + result.sent, refused + result.refused
        if refused:
            _sending_log.warning(
                "the collector refused %d spans for good; they are left out", refused
            )
        self._sent += sent
        self._refused += refused
        self._place.cursor = page.next_cursor
        # After a restart, it costs little to read events that end no span once more.
        if ready:
            self._place.sent += sent
            self._place.skipped += refused
            self._place.problem = None
            await self._place.save()
        return True

    async def _send_with_retries(self, batch: Sequence[ReadableSpan]) -> Sent | None:
        """Send the batch until it is accepted; `None` if the follower is stopped meanwhile."""
        while not self._stopping.is_set():
            result = await asyncio.to_thread(self._sender.send, batch)
            if result.problem is None:
                self._pause_s = 0.0
                if self._place.problem is not None:
                    _sending_log.warning("the collector accepts traces again")
                return result
            if self._stopping.is_set():
                return None
            if self._place.problem is None:
                _sending_log.warning("%s; traces wait", result.problem)
            await self._place.note(result.problem)
            if self._once:
                return None
            await self._pause(result.retry_after_s)
        return None

    async def _pause(self, wanted_s: float | None) -> None:
        """Wait before the next attempt, and keep the lease meanwhile."""
        left_s = max(self._next_pause(), wanted_s or 0.0)
        while left_s > 0 and not self._stopping.is_set():
            part_s = min(left_s, self._policy.lease_s / 4)
            await self._wait(part_s)
            left_s -= part_s
            await self._place.keep()

    def _next_pause(self) -> float:
        """The next delay: twice the last one, with jitter."""
        policy = self._policy
        longer = max(2 * self._pause_s, policy.first_pause_s)
        self._pause_s = min(longer, policy.longest_pause_s)
        return self._pause_s * random.uniform(0.5, 1.0)

    async def _wait(self, seconds: float, hint: asyncio.Task[None] | None = None) -> None:
        """Wait for the hint, for `stop`, or for `seconds`."""
        if not self._once:
            await wait_for_stop(self._stopping, seconds, hint)
