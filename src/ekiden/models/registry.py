"""The registry of providers, their addresses and keys, retries, and the block for tests."""

from __future__ import annotations

import asyncio
import ipaddress
import os
import random
import re
from collections.abc import Awaitable, Callable
from dataclasses import field
from typing import Literal, TypeAlias
from urllib.parse import urlsplit

from ekiden.core.conversation.model import Model
from ekiden.core.dataclass import dataclass
from ekiden.core.errors import UserError

Sleep: TypeAlias = Callable[[float], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """Exponential back-off with jitter, with a maximum number of retries and a maximum delay."""

    retries: int = 3
    first_s: float = 0.5
    """The maximum delay before the first retry, in seconds. It doubles with each retry."""
    cap_s: float = 30.0
    """The maximum delay before any retry, in seconds."""
    sleep: Sleep = asyncio.sleep
    """The sleep function; tests replace it to avoid waiting."""
    jitter: Callable[[], float] = random.random
    """A function that returns a number from 0 to 1. With 0, the delay is half of the maximum delay;
    with 1, it is the maximum delay."""

    def wait_s(self, failed: int, retry_after: float | None) -> float | None:
        """The delay in seconds after `failed` failures in a row; `None` means no further retry.

        `retry_after` is the delay that the provider asked for. If this delay is longer than
        `cap_s`, there is no retry, because the provider would refuse an earlier request.
        """
        if failed > self.retries:
            return None
        if retry_after is not None:
            return retry_after if retry_after <= self.cap_s else None
        longest: float = min(self.cap_s, self.first_s * 2 ** (failed - 1))
        return longest * (0.5 + self.jitter() / 2)


DEFAULT_TIMEOUT_S = 120.0

_PREFIX = re.compile(r"[a-z0-9][a-z0-9_.\-]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelOptions:
    """The values from which a `ProviderFactory` creates a model. They come from the arguments of
    `resolve_model`."""

    provider: str
    """The provider's prefix in the requested name, such as ``openai``."""
    model: str
    """The provider's name for the model."""
    base_url: str | None = None
    base_url_is_inline: bool = False
    """Whether the URL was part of the model's name.

    Such a name may come from an untrusted file, so do not send a key from the environment to this
    URL.
    """
    api_key: str | None = field(default=None, repr=False)
    timeout_s: float = DEFAULT_TIMEOUT_S
    """The timeout of one attempt, in seconds."""
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    """How often, and after which delays, a failed attempt is repeated."""


ProviderFactory: TypeAlias = Callable[[ModelOptions], Model]
"""A function that creates the model without a network call. It raises `UserError` if a key or a
package is missing."""

_factories: dict[str, ProviderFactory] = {}


def register_provider(prefix: str, factory: ProviderFactory) -> None:
    """Register `factory` for models whose names have the form ``prefix:model``. An earlier
    registration of the prefix is replaced.

    The built-in providers are registered in the same way. Raises `UserError` for an invalid prefix.
    """
    if not _PREFIX.fullmatch(prefix):
        raise UserError(
            f"{prefix!r} cannot be a provider's prefix: use lower-case letters, digits and _ . -"
        )
    _factories[prefix] = factory


def provider_factory(prefix: str) -> ProviderFactory:
    """The factory registered for `prefix`. Raises `UserError` for an unknown prefix."""
    factory = _factories.get(prefix)
    if factory is None:
        raise UserError(
            f"no model provider is called {prefix!r}; known: {', '.join(known_providers())}; "
            "add one with register_provider()"
        )
    return factory


def known_providers() -> list[str]:
    """The prefixes of all registered providers, sorted."""
    return sorted(_factories)


_OFF = frozenset({"", "0", "false", "no", "off"})


def real_models_blocked() -> bool:
    """Whether the environment variable ``EKIDEN_BLOCK_MODELS`` forbids remote models."""
    return os.environ.get("EKIDEN_BLOCK_MODELS", "").strip().lower() not in _OFF


def check_not_blocked(base_url: str) -> None:
    """Raise `UserError` if remote models are blocked and `base_url` is not on this machine."""
    if real_models_blocked() and not is_loopback(base_url):
        raise UserError(
            f"EKIDEN_BLOCK_MODELS is set, and {origin(base_url)} is not on this machine: "
            "use ekiden.testing.ScriptedModel or ekiden.testing.servers.openai.OpenAIServer, "
            "or unset the variable"
        )


def is_loopback(base_url: str) -> bool:
    """Whether the host of the URL is this machine."""
    host = urlsplit(base_url).hostname or ""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def origin(base_url: str) -> str:
    """The host and port of a URL, without user name, password and query."""
    parts = urlsplit(base_url)
    host = parts.hostname or ""
    if ":" in host:
        host = f"[{host}]"
    return f"{host}:{parts.port}" if parts.port else host


Api: TypeAlias = Literal["openai-responses", "openai-chat", "anthropic", "google"]
"""A wire format."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Backend:
    """A built-in provider."""

    api: Api
    url: str
    """The default address."""
    url_variable: str
    """The environment variable for another address."""
    key_variables: tuple[str, ...]
    """Environment variables for the key. The first variable that is set is used."""
    modules: tuple[str, ...]
    """Modules that must be installed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One model of a provider, with all data for a call. Equal targets share a connection pool."""

    api: Api
    provider: str
    model: str
    base_url: str
    is_official: bool
    """Whether `base_url` is the provider's own server, not a gateway."""
    api_key: str | None = field(repr=False)
    key_variable: str
    timeout_s: float
    retry: RetryPolicy

    @property
    def label(self) -> str:
        """``provider:model``."""
        return f"{self.provider}:{self.model}"

    @property
    def source(self) -> str:
        """The name of the server, which is stored in the items from this server. Reasoning is sent
        back only to the same server."""
        return self.provider if self.is_official else f"{self.provider}@{origin(self.base_url)}"


def target_of(options: ModelOptions, backend: Backend) -> Target:
    """Create the target from `options` and the environment. Raises `UserError` for an invalid URL
    or a missing key."""
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
    """Return `url` without a final slash. Raises `UserError` if the URL is invalid or contains a
    password."""
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
