"""Sending every span of a store to a collector as it ends, across restarts.

The follower reads the store's feed, so it sees what any process did, and runs know nothing of it:
a collector that is away holds up nobody. How far it is stands in the store, and is moved only when
the collector took everything up to there. So a span may be sent twice, under the same id, after a
crash, and none is lost.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ekiden.core.errors import StoreUnavailable
from ekiden.storage.base import EventPage, Store
from ekiden.tracing.ended import SessionsEnding
from ekiden.tracing.otel import OtelSpans, OtlpReport, batches, is_disabled
from ekiden.tracing.otel_place import FeedPosition, PlaceLost
from ekiden.tracing.otel_sending import OtlpSender, Sent

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan

_IDLE_S = 1.0
"""How long a lost hint can delay a span."""

_log = logging.getLogger("ekiden.otel")


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowPolicy:
    """How patient a follower is."""

    page: int = 200
    """Events that are read at a time."""
    first_pause_s: float = 1.0
    """After a first failure; each pause is twice as long as the one before."""
    longest_pause_s: float = 60.0
    lease_s: float = 30.0
    """After so long another process goes on for one that died."""


class OtelFollower:
    """Sends the spans of a store to a collector until it is stopped.

    One runs beside a server or a worker, for each store; of several processes on one store one
    sends, and the others stand by. A store that no follower knew sends what happens from then on;
    `ekiden trace SESSION --otlp` sends what was before, and so does `from_start`::

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
        """`endpoint` and `content` as for `export_otlp`; `attributes` are put on every span, such
        as a tenant; `name` tells followers of one store that send to different collectors apart.
        `UserError` without the extra ``otel``."""
        self._store = store
        self._policy = policy or FollowPolicy()
        self._from_start = from_start
        self._maker = OtelSpans(content=content, attributes=attributes)
        self._sender = OtlpSender(endpoint=endpoint)
        self._place = FeedPosition(store, name, lease_s=self._policy.lease_s)
        self._stopping = asyncio.Event()
        self._once = False
        self._sent = self._refused = 0
        self._pause_s = 0.0

    @property
    def report(self) -> OtlpReport:
        """What this follower did, and what keeps it from going on."""
        return OtlpReport(sent=self._sent, refused=self._refused, problem=self._place.problem)

    def stop(self) -> None:
        """End soon, also in the middle of a batch, which the next follower sends again."""
        self._stopping.set()
        self._sender.close()

    async def run(self, *, once: bool = False) -> OtlpReport:
        """Send until `stop`; with `once` until everything there is was sent, or a batch failed.

        Failures are never raised: each outage is logged once, and what is to be sent waits. Only
        with `once` the store's `StoreUnavailable` is raised.
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
        """Become the one that sends, and send; or wait for that."""
        try:
            if await self._place.claim(from_start=self._from_start):
                await self._follow()
            else:
                await self._wait(self._policy.lease_s / 3)
        except PlaceLost:
            _log.warning("another process sends traces now")
        except StoreUnavailable as exc:
            if self._once:
                raise
            _log.warning("traces wait for the store: %s", exc)
            await self._wait(self._next_pause())

    async def _follow(self) -> None:
        sessions = SessionsEnding(self._store)
        try:
            while not self._stopping.is_set():
                # Begun before looking, so that a change between looking and waiting is not missed.
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

    async def _send_page(self, page: EventPage, sessions: SessionsEnding) -> bool:
        """Send what the events end, and note that; whether it was taken."""
        ended = await sessions.read(page.events)
        ready = await asyncio.to_thread(self._maker.readable, ended.spans, tops=ended.tops)
        sent = refused = 0
        for batch in batches(ready):
            result = await self._insist(batch)
            if result is None:
                return False
            sent, refused = sent + result.sent, refused + result.refused
        if refused:
            _log.warning("the collector refused %d spans for good; they are left out", refused)
        self._sent += sent
        self._refused += refused
        if ready:
            await self._place.move(page.next_cursor, sent=sent, refused=refused)
        else:
            self._place.cursor = page.next_cursor
        return True

    async def _insist(self, batch: Sequence[ReadableSpan]) -> Sent | None:
        """Send the batch until it is taken; `None` if somebody does not want to wait for that."""
        while not self._stopping.is_set():
            result = await asyncio.to_thread(self._sender.send, batch)
            if result.problem is None:
                self._went_well()
                return result
            if self._stopping.is_set():
                return None
            if self._place.problem is None:
                _log.warning("%s; traces wait", result.problem)
            await self._place.note(result.problem)
            if self._once:
                return None
            await self._rest(result.retry_after_s)
        return None

    def _went_well(self) -> None:
        self._pause_s = 0.0
        if self._place.problem is not None:
            _log.warning("the collector takes traces again")

    async def _rest(self, wanted_s: float | None) -> None:
        """Leave the collector alone for a while, and stay the one that sends."""
        left_s = max(self._next_pause(), wanted_s or 0.0)
        while left_s > 0 and not self._stopping.is_set():
            part_s = min(left_s, self._policy.lease_s / 4)
            await self._wait(part_s)
            left_s -= part_s
            await self._place.keep()

    def _next_pause(self) -> float:
        """A pause, longer than the last one and not for all the same."""
        policy = self._policy
        longer = max(2 * self._pause_s, policy.first_pause_s)
        self._pause_s = min(longer, policy.longest_pause_s)
        return self._pause_s * random.uniform(0.5, 1.0)

    async def _wait(self, seconds: float, hint: asyncio.Task[None] | None = None) -> None:
        """For the hint, for `stop`, or so long."""
        if self._once:
            return
        stopping = asyncio.create_task(self._stopping.wait())
        try:
            waits = {stopping} if hint is None else {stopping, hint}
            await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopping.cancel()
            await asyncio.gather(stopping, return_exceptions=True)
