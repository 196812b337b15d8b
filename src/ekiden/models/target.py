"""Where a built-in provider's model is, and what is needed to call it."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Literal, TypeAlias
from urllib.parse import urlsplit

from ekiden.core.errors import UserError
from ekiden.models.guard import origin
from ekiden.models.registry import ModelOptions
from ekiden.models.retry import RetryPolicy

Api: TypeAlias = Literal["openai-responses", "openai-chat", "anthropic", "google"]
"""A wire format."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Backend:
    """A built-in provider."""

    api: Api
    url: str
    """Its default address."""
    url_variable: str
    key_variables: tuple[str, ...]
    """Environment variables, the first that is set counts."""
    modules: tuple[str, ...]
    """What must be installed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One model of a provider, with everything that a call needs; equal targets share a pool."""

    api: Api
    provider: str
    model: str
    base_url: str
    is_official: bool
    """Whether `base_url` is the provider's own, not a gateway or another server."""
    api_key: str | None = field(repr=False)
    key_variable: str
    timeout_s: float
    retry: RetryPolicy

    @property
    def label(self) -> str:
        return f"{self.provider}:{self.model}"

    @property
    def source(self) -> str:
        """Who made an item: reasoning goes back only to the same one."""
        return self.provider if self.is_official else f"{self.provider}@{origin(self.base_url)}"


def target_of(options: ModelOptions, backend: Backend) -> Target:
    """The target that `options` and the environment mean; `UserError` for a bad URL or no key."""
    from_environment = os.environ.get(backend.url_variable) or None
    base_url = check_url(options.base_url or from_environment or backend.url)
    is_official = origin(base_url) == origin(backend.url)
    key = options.api_key
    if not key and (not options.base_url_is_inline or is_official):
        key = next(filter(None, map(os.environ.get, backend.key_variables)), None)
    if not key and is_official:
        raise UserError(
            f"{options.provider}:{options.model} needs an API key: "
            f"set {backend.key_variables[0]}, or pass api_key="
        )
    return Target(
        api=backend.api,
        provider=options.provider,
        model=options.model,
        base_url=base_url,
        is_official=is_official,
        api_key=key,
        key_variable=backend.key_variables[0],
        timeout_s=options.timeout_s,
        retry=options.retry,
    )


def check_url(url: str) -> str:
    """`url` without a final slash; `UserError` when it cannot be a base URL or holds a secret."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        parts, host, port = urlsplit(""), None, None
    if parts.scheme not in ("http", "https") or not host or parts.query or parts.fragment:
        raise UserError(
            "a model's base URL must look like https://host/v1, without a query or a fragment"
        )
    if parts.username or parts.password:
        where = f"{host}:{port}" if port else host
        raise UserError(
            f"the base URL for {where} holds a user name or password: pass api_key= instead"
        )
    return url.rstrip("/")
