"""Finds models by name (``provider:model``), and registers your own providers."""

from ekiden.models.providers import resolve_model
from ekiden.models.registry import (
    ModelOptions,
    ProviderFactory,
    RetryPolicy,
    check_not_blocked,
    known_providers,
    real_models_blocked,
    register_provider,
)

__all__ = [
    "ModelOptions",
    "ProviderFactory",
    "RetryPolicy",
    "check_not_blocked",
    "known_providers",
    "real_models_blocked",
    "register_provider",
    "resolve_model",
]
