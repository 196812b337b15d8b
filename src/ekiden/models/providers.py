"""Models by name: ``provider:model``, made by the built-in providers or by registered ones."""

from __future__ import annotations

import re
from functools import lru_cache, partial
from importlib.util import find_spec

from ekiden.core.errors import UserError
from ekiden.core.model import Model
from ekiden.models.provider_model import ProviderModel
from ekiden.models.registry import (
    DEFAULT_TIMEOUT_S,
    ModelOptions,
    known_providers,
    provider_factory,
    register_provider,
)
from ekiden.models.retry import RetryPolicy
from ekiden.models.target import Backend, Target, target_of

_INLINE_URL = re.compile(r"(?P<model>.+?)@(?P<url>https?://\S+)")

LOCAL = "local"
"""The provider of models in this process; the only one whose model need not be named."""

_OPENAI_KEYS = ("OPENAI_API_KEY",)

BUILT_IN: dict[str, Backend] = {
    "openai": Backend(
        api="openai-responses",
        url="https://api.openai.com/v1",
        url_variable="OPENAI_BASE_URL",
        key_variables=_OPENAI_KEYS,
        modules=("pydantic_ai", "openai"),
    ),
    "openai-chat": Backend(
        api="openai-chat",
        url="https://api.openai.com/v1",
        url_variable="OPENAI_BASE_URL",
        key_variables=_OPENAI_KEYS,
        modules=("pydantic_ai", "openai"),
    ),
    "anthropic": Backend(
        api="anthropic",
        url="https://api.anthropic.com",
        url_variable="ANTHROPIC_BASE_URL",
        key_variables=("ANTHROPIC_API_KEY",),
        modules=("pydantic_ai", "anthropic"),
    ),
    "google": Backend(
        api="google",
        url="https://generativelanguage.googleapis.com",
        url_variable="GOOGLE_GEMINI_BASE_URL",
        key_variables=("GOOGLE_API_KEY", "GEMINI_API_KEY"),
        modules=("pydantic_ai", "google.genai"),
    ),
}


def resolve_model(
    name: str,
    *,
    base_url: str | None = None,
    api_key: str | None = None,
    timeout_s: float = DEFAULT_TIMEOUT_S,
    retries: int | RetryPolicy = 3,
) -> Model:
    """The model that `name` means.

    `name` is ``provider:model``, or ``provider:model@http://host/v1`` for a server of your own, or
    ``local:file.gguf`` (``local:`` for the best found) for a model in this process.
    The URL is, in this order: the one in the name, `base_url`, the provider's environment
    variable, the provider's own address. `timeout_s` bounds each attempt; `retries` says how
    often an attempt that failed for a passing reason is repeated.

    Nothing is called yet. Raises `UserError` for an unknown provider, a missing key or package,
    or a URL that cannot be one.
    """
    prefix, colon, rest = name.partition(":")
    if not (prefix and colon and (rest or prefix == LOCAL)):
        raise UserError(
            f"{name!r} does not name a model: write provider:model, such as openai:gpt-5-mini; "
            f"known providers: {', '.join(known_providers())}"
        )
    factory = provider_factory(prefix)
    inline = _INLINE_URL.fullmatch(rest)
    if inline and base_url:
        raise UserError(
            f"{prefix}:{inline['model']} has a URL in its name and in base_url=: keep one"
        )
    return factory(
        ModelOptions(
            provider=prefix,
            model=inline["model"] if inline else rest,
            base_url=inline["url"] if inline else base_url,
            base_url_is_inline=inline is not None,
            api_key=api_key,
            timeout_s=timeout_s,
            retry=retries if isinstance(retries, RetryPolicy) else RetryPolicy(retries=retries),
        )
    )


def _make(backend: Backend, options: ModelOptions) -> Model:
    """The factory of every built-in provider."""
    missing = [module for module in backend.modules if not _is_installed(module)]
    if missing:
        raise UserError(
            f"{options.provider}:{options.model} needs {' and '.join(missing)}: "
            "pip install 'ekiden[models]'"
        )
    return _shared(target_of(options, backend))


@lru_cache(maxsize=64)
def _shared(target: Target) -> ProviderModel:
    """One model, and so one pool of connections, per target."""
    return ProviderModel(target)


def _make_local(options: ModelOptions) -> Model:
    from ekiden.models.local.provider import make_local_model

    return make_local_model(options)


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except (ImportError, ValueError):
        return False


for _prefix, _backend in BUILT_IN.items():
    register_provider(_prefix, partial(_make, _backend))
register_provider(LOCAL, _make_local)
