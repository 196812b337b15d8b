"""Metrics of a server in the format of Prometheus."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Final, Literal, TypeAlias

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.metrics_core import Metric

from ekiden.core.events import Event
from ekiden.server.metrics.events import EventMetrics
from ekiden.server.metrics.labels import OTHER, FewNames, one_of
from ekiden.server.metrics.stores import Measured, StoreGauges

Transport: TypeAlias = Literal["sse", "websocket"]

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
UNMATCHED: Final = "unmatched"
"""The route of requests that no route is for."""

_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_MOST_ROUTES = 300
_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0)


class Metrics:
    """All metrics of one server, in a registry of its own.

    Somebody shows it every event of every tenant once, in the order of the feed, from the moment
    at which it is made; the server tells it of requests and connections; `collect` gives the page
    that Prometheus reads. Of one event loop::

        metrics = Metrics()
        metrics.observe(event, tenant="default")
        page = await metrics.collect(service.desks.values())
    """

    def __init__(self, *, since_us: int | None = None) -> None:
        """Events before `since_us`, by default now, are history and not counted."""
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

        `route` is the template of its route, such as ``/api/v1/sessions/{session_id}``, and never
        its path; `None` if no route is for it.
        """
        method = one_of(method.upper(), _METHODS)
        route = UNMATCHED if route is None else self._route(route)
        shown = str(status) if 100 <= status <= 599 else OTHER
        self._requests.labels(method, route, shown).inc()
        self._seconds.labels(method, route).observe(seconds)

    @contextmanager
    def connection(self, transport: Transport) -> Iterator[None]:
        """A stream is open for the length of the `with`."""
        gauge = self._connections.labels(transport)
        gauge.inc()
        try:
            yield
        finally:
            gauge.dec()

    async def collect(self, desks: Iterable[Measured]) -> bytes:
        """The page, with what waits in the stores of the desks; never raises because of a store.

        Serve it as `CONTENT_TYPE`.
        """
        await self._gauges.read((self._events.tenant(desk.tenant), desk) for desk in desks)
        return generate_latest(_Page(self._registry, self._gauges))


class _Page:
    """A `Collector`: all families, without the times at which counters were made."""

    def __init__(self, registry: CollectorRegistry, gauges: StoreGauges) -> None:
        self._registry = registry
        self._gauges = gauges

    def collect(self) -> Iterator[Metric]:
        for family in self._registry.collect():
            created = f"{family.name}_created"
            family.samples = [each for each in family.samples if each.name != created]
            yield family
        yield from self._gauges.collect()
