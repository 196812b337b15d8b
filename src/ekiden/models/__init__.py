"""Models by name, ``provider:model``, and the way to add providers of your own."""

from ekiden.models.guard import check_not_blocked, real_models_blocked
from ekiden.models.providers import resolve_model
from ekiden.models.registry import (
    ModelOptions,
    ProviderFactory,
    known_providers,
    register_provider,
)
from ekiden.models.retry import RetryPolicy

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
