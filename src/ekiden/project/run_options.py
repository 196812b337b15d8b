"""Options, prices, the replica and the telemetry of runs, from settings and environment."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Final, Protocol

from ekiden.core.errors import UserError
from ekiden.core.integrations.registry import integration
from ekiden.core.profile import Budget
from ekiden.project.settings import Settings
from ekiden.project.stores import DEFAULT_TENANT, tenant_app
from ekiden.runtime import Limits, Price, RunConfig
from ekiden.sessions.costs import CostBook, CostKey, CostReport, call_pages, events_with_asked
from ekiden.sessions.replica import ReplicaSettings
from ekiden.storage.base import Store

if TYPE_CHECKING:
    from ekiden.embeddings.base import Embedder
    from ekiden.sessions.replica import SessionReplica
    from ekiden.tracing.otel.follower import OtelFollower

_OTHER_TENANTS: Final = "*"


def config_of(settings: Settings) -> RunConfig:
    """The configuration of runs from the settings."""
    return RunConfig(
        operator=settings.inbox.role,
        escalation=settings.inbox.escalation,
        app=settings.app,
        prices=prices_of(settings),
        bus=settings.bus,
        escalate_to=settings.handoffs.escalate_to,
        limits=_limits(settings),
        model_timeout_s=settings.limits.model_seconds,
        daily=_daily(settings, DEFAULT_TENANT),
        embedder=partial(embedder_of, settings.memory.embedding_model, settings.memory.dimension),
    )


def tenant_config(settings: Settings, tenant: str) -> RunConfig:
    """The configuration of runs of a tenant. Approvals go to the inbox."""
    return replace(
        config_of(settings),
        approver="inbox",
        app=tenant_app(settings.app, tenant),
        daily=_daily(settings, tenant),
    )


def _limits(settings: Settings) -> Limits:
    own = settings.limits
    return Limits(
        depth=settings.handoffs.depth,
        turns=own.turns,
        tokens=own.tokens,
        seconds=own.seconds,
        money=own.money,
    )


def _daily(settings: Settings, tenant: str) -> Budget | None:
    """The daily budget of a tenant; `None` if there is none."""
    tenants = settings.limits.tenants
    found: Any = tenants.get(tenant, tenants.get(_OTHER_TENANTS))
    return None if found is None else Budget(**found)


def prices_of(settings: Settings) -> dict[str, Price]:
    """The prices of models in the settings."""
    return {name: Price(**each) for name, each in settings.prices.items()}


@lru_cache(maxsize=8)
def embedder_of(name: str, dimension: int | None) -> Embedder:
    """Return the embedder with this name. All callers in the process share it. Raises `UserError`
    if the embedder is unavailable."""
    from ekiden.embeddings.base import embedder_for

    return embedder_for(name, dimension=dimension)


async def costs(
    store: Store,
    settings: Settings,
    *,
    session_id: str | None = None,
    since: datetime | None = None,
    by: Sequence[CostKey] = ("agent", "model"),
) -> CostReport:
    """Return the usage and cost of the model calls of all sessions, or of one session and the
    sessions that answered its queries. Raises `SessionNotFound`. For example::

        report = await costs(store, project.settings, by=["day"])
    """
    since_us = None if since is None else int(since.timestamp() * 1e6)
    book = CostBook(prices_of(settings), by=by)
    if session_id is not None:
        events = await events_with_asked(store, session_id)
        book.add(event for event in events if since_us is None or event.at_us >= since_us)
        return book.report()
    async for page in call_pages(store, since_us=since_us):
        book.add(event for event in page if since_us is None or event.at_us >= since_us)
        await asyncio.sleep(0)  # A memory store never waits, so other tasks would not run.
    return book.report()


_URL = "EKIDEN_VERTEX_URL"
"""Another address of Vertex, such as a private one. It is read from the environment only, and never
from a project's files, because this address gets the token of this machine."""


def session_replica(settings: ReplicaSettings) -> SessionReplica:
    """Create the replica that the settings name. Raises `UserError` if the settings name no
    replica, or if the extra ``vertex`` is missing.

    For example::

        await replicate_sessions(store, session_replica(load_settings(folder).settings.mirror))
    """
    vertex = settings.vertex
    if not (vertex.project and vertex.engine):
        raise UserError(
            "no mirror is set up: `ekiden config set mirror.vertex.project PROJECT` and "
            "`ekiden config set mirror.vertex.engine ID` say where sessions are mirrored to"
        )
    mirror: SessionReplica = (
        integration("vertex")
        .load()
        .VertexReplica(
            project=vertex.project,
            location=vertex.location,
            engine=vertex.engine,
            url=os.environ.get(_URL) or None,
        )
    )
    return mirror


_log = logging.getLogger("ekiden.otel")

TENANT = "ekiden.tenant"
"""The attribute of a span that contains the name of the tenant."""
_GRACE_S = 1.0


class Watched(Protocol):
    """A tenant and its store."""

    @property
    def tenant(self) -> str:
        """The name of the tenant."""
        ...

    @property
    def store(self) -> Store:
        """The store of the tenant."""
        ...


class Telemetry:
    """One `OtelFollower` for each tenant, in one event loop. Spans are sent only if
    ``OTEL_EXPORTER_OTLP_ENDPOINT`` or another standard variable is set.

    For example::

        telemetry = Telemetry()
        telemetry.watch(tenant_service)
        ...
        await telemetry.close()
    """

    def __init__(self) -> None:
        self._followers: dict[str, tuple[OtelFollower, asyncio.Task[object]]] = {}
        self._is_wanted = _is_wanted()

    def watch(self, tenant: Watched) -> None:
        """Send the spans of the tenant. A second call does nothing. A failure is only logged."""
        if not self._is_wanted or tenant.tenant in self._followers:
            return
        from ekiden.tracing.otel.follower import OtelFollower

        try:
            follower = OtelFollower(tenant.store, attributes={TENANT: tenant.tenant})
        except UserError as exc:
            self._is_wanted = False
            _log.warning("no traces are sent: %s", exc)
            return
        task = asyncio.create_task(follower.run(), name=f"ekiden-otel-{tenant.tenant}")
        task.add_done_callback(_log_failure)
        self._followers[tenant.tenant] = (follower, task)

    async def close(self) -> None:
        """Stop all followers. The next process sends the spans that were not sent."""
        followers, self._followers = list(self._followers.values()), {}
        for follower, _ in followers:
            follower.stop()
        tasks = [task for _, task in followers]
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=_GRACE_S)
            for task in late:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


def _is_wanted() -> bool:
    if not any(name.startswith("OTEL_") for name in os.environ):
        return False  # The usual case: do not load the exporter.
    from ekiden.tracing.otel.exporter import is_wanted

    return is_wanted()


def _log_failure(done: asyncio.Task[object]) -> None:
    if not done.cancelled() and done.exception() is not None:
        _log.error("traces are not sent any more: %s", done.exception())
