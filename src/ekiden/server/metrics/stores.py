"""How much waits in the stores of tenants, looked up when somebody asks for metrics."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from time import monotonic
from typing import Protocol

from prometheus_client.core import GaugeMetricFamily

from ekiden.core.errors import EkidenError
from ekiden.inbox import Inbox, InboxQuery
from ekiden.server.metrics.labels import OTHER
from ekiden.storage.base import MessageFilter, SessionFilter, Store

MOST_COUNTED = 1000
"""Of each kind and tenant so many are counted: a gauge that shows it means *at least*."""
_FRESH_S = 5.0
_PATIENCE_S = 2.0
_OPEN = InboxQuery(snoozed=True)


class Measured(Protocol):
    """A desk: one tenant's store, and its inbox."""

    @property
    def tenant(self) -> str: ...

    @property
    def store(self) -> Store: ...

    @property
    def inbox(self) -> Inbox: ...


@dataclass(slots=True, kw_only=True)
class Backlog:
    """What waits at one tenant, or at all that share a label."""

    ready: int = 0
    """Sessions that have work and wait for somebody to do it."""
    waiting: int = 0
    """Sessions that wait for an answer, a person's or an agent's."""
    inbox: int = 0
    """Questions that people have not answered; snoozed ones too."""
    queued: int = 0
    """Messages between agents that are not settled."""
    is_up: bool = True
    """Whether the store could be asked."""

    def add(self, other: Backlog) -> None:
        """Count another tenant in."""
        self.ready += other.ready
        self.waiting += other.waiting
        self.inbox += other.inbox
        self.queued += other.queued
        self.is_up = self.is_up and other.is_up


class StoreGauges:
    """Reads backlogs, at most every few seconds however often somebody asks; a `Collector`."""

    def __init__(self) -> None:
        self._backlogs: dict[str, Backlog] = {}
        self._read_at = -_FRESH_S
        self._reading = asyncio.Lock()

    async def read(self, desks: Iterable[tuple[str, Measured]]) -> None:
        """Look at the stores of the desks, each given with its label.

        A store that fails or takes too long is told as down; its backlog then counts as nothing.
        """
        async with self._reading:
            if monotonic() - self._read_at < _FRESH_S:
                return
            labelled = list(desks)
            found = await asyncio.gather(*(_backlog(desk) for _, desk in labelled))
            backlogs: dict[str, Backlog] = {}
            for (label, _), backlog in zip(labelled, found, strict=True):
                backlogs.setdefault(label, Backlog()).add(backlog)
            self._backlogs = backlogs
            self._read_at = monotonic()

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """The gauges, as the registry wants them."""
        at_least = f"at most {MOST_COUNTED} of a tenant are counted"
        sessions = GaugeMetricFamily(
            "ekiden_sessions", f"Sessions by status; {at_least}.", labels=["tenant", "status"]
        )
        inbox = GaugeMetricFamily(
            "ekiden_inbox_open_items", f"Questions to people; {at_least}.", labels=["tenant"]
        )
        queued = GaugeMetricFamily(
            "ekiden_queue_messages", f"Messages between agents; {at_least}.", labels=["tenant"]
        )
        up = GaugeMetricFamily(
            "ekiden_store_up", "Whether the tenant's store answers.", labels=["tenant"]
        )
        for label, backlog in sorted(self._backlogs.items(), key=lambda one: one[0] == OTHER):
            up.add_metric([label], float(backlog.is_up))
            sessions.add_metric([label, "ready"], backlog.ready)
            sessions.add_metric([label, "waiting"], backlog.waiting)
            inbox.add_metric([label], backlog.inbox)
            queued.add_metric([label], backlog.queued)
        yield from (sessions, inbox, queued, up)


async def _backlog(desk: Measured) -> Backlog:
    store = desk.store
    try:
        async with asyncio.timeout(_PATIENCE_S):
            ready = await store.list(SessionFilter(status="ready"), limit=MOST_COUNTED)
            waiting = await store.list(SessionFilter(status="waiting"), limit=MOST_COUNTED)
            items = await desk.inbox.list(_OPEN, limit=MOST_COUNTED)
            queued = await store.find_messages(MessageFilter(states={"open"}), limit=MOST_COUNTED)
    except (EkidenError, TimeoutError):
        return Backlog(is_up=False)
    return Backlog(
        ready=len(ready.sessions),
        waiting=len(waiting.sessions),
        inbox=len(items.items),
        queued=len(queued),
    )
