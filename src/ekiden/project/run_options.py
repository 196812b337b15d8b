"""Options and prices of runs, and the replica of sessions, from the settings."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Final

from ekiden.core.errors import UserError
from ekiden.core.integrations.registry import integration
from ekiden.core.profile import Budget
from ekiden.project.settings import Settings
from ekiden.project.stores import DEFAULT_TENANT, tenant_app
from ekiden.runtime import Limits, Price, RunConfig
from ekiden.sessions.costs import CostBook, CostKey, CostReport, call_pages, events_with_asked
from ekiden.sessions.replica.base import ReplicaSettings
from ekiden.storage.base import Store

if TYPE_CHECKING:
    from ekiden.embeddings.base import Embedder
    from ekiden.sessions.replica.base import SessionReplica


_EVERY_OTHER: Final = "*"


def config_of(settings: Settings) -> RunConfig:
    """The part of a run's configuration that settings decide."""
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
    """Options for sessions of a tenant without a terminal: people are asked through the inbox."""
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
    """What a tenant may use in a day."""
    tenants = settings.limits.tenants
    found: Any = tenants.get(tenant, tenants.get(_EVERY_OTHER))
    return None if found is None else Budget(**found)


def prices_of(settings: Settings) -> dict[str, Price]:
    """What the settings say that models cost."""
    return {name: Price(**each) for name, each in settings.prices.items()}


@lru_cache(maxsize=8)
def embedder_of(name: str, dimension: int | None) -> Embedder:
    """The process's embedder of that name; `UserError` if it cannot be had."""
    from ekiden.embeddings.named import embedder_for

    return embedder_for(name, dimension=dimension)


async def costs(
    store: Store,
    settings: Settings,
    *,
    session_id: str | None = None,
    since: datetime | None = None,
    by: Sequence[CostKey] = ("agent", "model"),
) -> CostReport:
    """What calls used and cost: those of a session and of all that answered it, or of all there
    are; `SessionNotFound`. For example::

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
        await asyncio.sleep(0)  # A store in memory never waits, and others want their turn.
    return book.report()


_URL = "EKIDEN_VERTEX_URL"
"""Another address of Vertex, such as a private one. It gets this machine's token: so it is taken
from the environment only, and not from a file that came with a project."""


def session_replica(settings: ReplicaSettings) -> SessionReplica:
    """The mirror of the settings; `UserError` if there is none, or the extra ``vertex`` is missing.

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
