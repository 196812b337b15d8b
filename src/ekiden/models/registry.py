"""The providers that ``provider:model`` may name, and how to add one."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from ekiden.core.conversation.model import Model
from ekiden.core.errors import UserError
from ekiden.models.retry import RetryPolicy

DEFAULT_TIMEOUT_S = 120.0

_PREFIX = re.compile(r"[a-z0-9][a-z0-9_.\-]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelOptions:
    """The arguments of `resolve_model`, for a provider's factory."""

    provider: str
    """The prefix in the requested name."""
    model: str
    """The provider's name for the model."""
    base_url: str | None = None
    base_url_is_inline: bool = False
    """The URL was part of the model's name.

    Such a name may come from an untrusted file, so a key of the environment must not be sent there.
    """
    api_key: str | None = field(default=None, repr=False)
    timeout_s: float = DEFAULT_TIMEOUT_S
    """The timeout of one attempt."""
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    """The retries after a failed attempt."""


ProviderFactory: TypeAlias = Callable[[ModelOptions], Model]
"""Makes the model; raises `UserError` for what is missing. Must not call the provider yet."""

_factories: dict[str, ProviderFactory] = {}


def register_provider(prefix: str, factory: ProviderFactory) -> None:
    """Register `factory` for ``prefix:model``; replaces an earlier registration.

    The built-in providers are registered in the same way. Raises `UserError` for an invalid prefix.
    """
    if not _PREFIX.fullmatch(prefix):
        raise UserError(
            f"{prefix!r} cannot be a provider's prefix: use lower-case letters, digits and _ . -"
        )
    _factories[prefix] = factory


def provider_factory(prefix: str) -> ProviderFactory:
    """The factory registered for `prefix`; `UserError` with the known ones when there is none."""
    factory = _factories.get(prefix)
    if factory is None:
        raise UserError(
            f"no model provider is called {prefix!r}; known: {', '.join(known_providers())}; "
            "add one with register_provider()"
        )
    return factory


def known_providers() -> list[str]:
    """Every registered prefix, sorted."""
    return sorted(_factories)
