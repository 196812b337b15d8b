"""How runs are made, as the settings say."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING

from ekiden.app.settings import Settings
from ekiden.app.tenants import tenant_app
from ekiden.runtime import Limits, Price, RunConfig

if TYPE_CHECKING:
    from ekiden.embeddings.base import Embedder


def config_of(settings: Settings) -> RunConfig:
    """The part of a run's configuration that settings decide."""
    return RunConfig(
        operator=settings.inbox.role,
        escalation=settings.inbox.escalation,
        app=settings.app,
        prices=prices_of(settings),
        bus=settings.bus,
        escalate_to=settings.handoffs.escalate_to,
        limits=Limits(depth=settings.handoffs.depth),
        embedder=partial(embedder_of, settings.memory.embedding_model, settings.memory.dimension),
    )


def tenant_config(settings: Settings, tenant: str) -> RunConfig:
    """How sessions of a tenant are run where nobody sits before them: people are asked through the
    inbox."""
    return replace(config_of(settings), approver="inbox", app=tenant_app(settings, tenant))


def prices_of(settings: Settings) -> dict[str, Price]:
    """What the settings say that models cost."""
    return {name: Price(**each) for name, each in settings.prices.items()}


@lru_cache(maxsize=8)
def embedder_of(name: str, dimension: int | None) -> Embedder:
    """The process's embedder of that name; `UserError` if it cannot be had."""
    from ekiden.embeddings.named import embedder_for

    return embedder_for(name, dimension=dimension)
