"""Metrics of a server in the format of Prometheus, fed with the events of all tenants."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from time import monotonic
from typing import Final, Literal, Protocol, TypeAlias

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric

from ekiden.core.errors import EkidenError
from ekiden.core.events import Event
from ekiden.inbox import Inbox, InboxQuery
from ekiden.project.service import TenantService
from ekiden.server.event_metrics import OTHER, EventMetrics, FewNames, one_of
from ekiden.storage.base import MessageFilter, SessionFilter, SessionRow, Store
from ekiden.storage.records import is_copied

Transport: TypeAlias = Literal["sse", "websocket"]

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
UNMATCHED: Final = "unmatched"
"""The label of requests to unknown paths."""

_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_MOST_ROUTES = 300
_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0)

MOST_COUNTED = 1000
"""The maximum count for each kind and tenant. If a gauge has this value, the true number may be
higher."""
_FRESH_S = 5.0
_PATIENCE_S = 2.0
_OPEN = InboxQuery(snoozed=True)


class Measured(Protocol):
    """One tenant's store and inbox."""

    @property
    def tenant(self) -> str: ...

    @property
    def store(self) -> Store: ...

    @property
    def inbox(self) -> Inbox: ...


@dataclass(slots=True, kw_only=True)
class Backlog:
    """The waiting work of one tenant, or of all tenants with the same label."""

    ready: int = 0
    """The number of sessions that have work and wait for a worker."""
    waiting: int = 0
    """The number of sessions that wait for the answer of a person or an agent."""
    inbox: int = 0
    """The number of open questions to people, including snoozed questions."""
    queued: int = 0
    """The number of messages between agents that are not settled."""
    is_up: bool = True
    """Whether the store answered."""

    def add(self, other: Backlog) -> None:
        """Add the backlog of another tenant."""
        self.ready += other.ready
        self.waiting += other.waiting
        self.inbox += other.inbox
        self.queued += other.queued
        self.is_up = self.is_up and other.is_up


class StoreGauges:
    """A `Collector` that reads backlogs, at most every few seconds."""

    def __init__(self) -> None:
        self._backlogs: dict[str, Backlog] = {}
        self._read_at = -_FRESH_S
        self._reading = asyncio.Lock()

    async def read(self, tenant_services: Iterable[tuple[str, Measured]]) -> None:
        """Read the stores of the tenants. Each tenant is given with its label.

        A store that fails or takes too long is reported as down, with an empty backlog.
        """
        async with self._reading:
            if monotonic() - self._read_at < _FRESH_S:
                return
            labelled = list(tenant_services)
            found = await asyncio.gather(*(_backlog(desk) for _, desk in labelled))
            backlogs: dict[str, Backlog] = {}
            for (label, _), backlog in zip(labelled, found, strict=True):
                backlogs.setdefault(label, Backlog()).add(backlog)
            self._backlogs = backlogs
            self._read_at = monotonic()

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """The gauges, in the format of the registry."""
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


class Metrics:
    """All metrics of one server, in a registry of its own.

    `Counting` passes every event of every tenant to this object once, in the order of the feed. The
    server reports requests and connections. `collect` returns the page for Prometheus. Each object
    belongs to one event loop::

        metrics = Metrics()
        metrics.observe(event, tenant="default")
        page = await metrics.collect(service.desks.values())
    """

    def __init__(self, *, since_us: int | None = None) -> None:
        """Events before `since_us`, by default now, are not counted."""
        self._registry = CollectorRegistry()
        self._events = EventMetrics(self._registry, since_us=since_us)
        self._gauges = StoreGauges()
        self._route = FewNames(_MOST_ROUTES)
        self._requests = Counter(
            "ekiden_http_requests_total",
            "Requests by the template of their route.",
            ("method", "route", "status"),
            registry=self._registry,
        )
        self._seconds = Histogram(
            "ekiden_http_request_duration_seconds",
            "To the first byte of the answer.",
            ("method", "route"),
            buckets=_SECONDS,
            registry=self._registry,
        )
        self._connections = Gauge(
            "ekiden_live_connections",
            "Streams of events that are open.",
            ("transport",),
            registry=self._registry,
        )
        for transport in ("sse", "websocket"):
            self._connections.labels(transport)

    def observe(self, event: Event, *, tenant: str) -> None:
        """Count one event of a tenant."""
        self._events.observe(event, tenant=tenant)

    def http_request(self, *, method: str, route: str | None, status: int, seconds: float) -> None:
        """Count one request.

        `route` is the template, such as ``/api/v1/sessions/{session_id}``, and not the path. It is
        `None` for a path without a route.
        """
        method = one_of(method.upper(), _METHODS)
        route = UNMATCHED if route is None else self._route(route)
        shown = str(status) if 100 <= status <= 599 else OTHER
        self._requests.labels(method, route, shown).inc()
        self._seconds.labels(method, route).observe(seconds)

    @contextmanager
    def connection(self, transport: Transport) -> Iterator[None]:
        """Count an open stream during the ``with`` block."""
        gauge = self._connections.labels(transport)
        gauge.inc()
        try:
            yield
        finally:
            gauge.dec()

    async def collect(self, tenant_services: Iterable[Measured]) -> bytes:
        """Return the page, with the backlogs of these tenants. Failures of stores are not raised.

        The content type of the page is `CONTENT_TYPE`.
        """
        await self._gauges.read(
            (self._events.tenant(desk.tenant), desk) for desk in tenant_services
        )
        return generate_latest(_Page(self._registry, self._gauges))


class _Page:
    """A `Collector` of all metrics, without the creation times of counters."""

    def __init__(self, registry: CollectorRegistry, gauges: StoreGauges) -> None:
        self._registry = registry
        self._gauges = gauges

    def collect(self) -> Iterator[Metric]:
        for family in self._registry.collect():
            created = f"{family.name}_created"
            family.samples = [each for each in family.samples if each.name != created]
            yield family
        yield from self._gauges.collect()


_log = logging.getLogger("ekiden.server")


class Counting:
    """Counts the events of each tenant in a task. Each object belongs to one event loop.

    For example::

        counting = Counting(metrics)
        counting.watch(desk)
        ...
        await counting.close()
    """

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def watch(self, desk: TenantService) -> None:
        """Count the events of the tenant from now on. A second call does nothing."""
        known = self._tasks.get(desk.tenant)
        if known is None or known.done():
            name = f"ekiden-metrics-{desk.tenant}"
            self._tasks[desk.tenant] = asyncio.create_task(self._count(desk), name=name)

    async def close(self) -> None:
        """Stop counting."""
        tasks, self._tasks = list(self._tasks.values()), {}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _count(self, desk: TenantService) -> None:
        forks = _Forks(desk.store)
        try:
            async with desk.hub.subscribe() as stream:
                async for found in stream:
                    if not await forks.copied(found.event):
                        self._metrics.observe(found.event, tenant=desk.tenant)
        except EkidenError as exc:
            _log.warning("the events of %s are not counted any more: %s", desk.tenant, exc)


class _Forks:
    """Recognizes the events that forks copied: they were counted in the original session."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._rows: dict[str, SessionRow] = {}
        """The forks whose copied events are being read."""

    async def copied(self, event: Event) -> bool:
        """Whether a fork copied the event. The events of a session must come in order."""
        if event.seq == 1 and event.session_id:
            with suppress(EkidenError):
                self._rows[event.session_id] = await self._store.get(event.session_id)
        row = self._rows.get(event.session_id)
        if row is None:
            return False
        if is_copied(row, event):
            return True
        del self._rows[event.session_id]
        return False
