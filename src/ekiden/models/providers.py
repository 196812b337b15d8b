"""Models by name: ``provider:model``, from built-in or registered providers."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from functools import lru_cache, partial
from typing import TYPE_CHECKING, NamedTuple
from weakref import WeakKeyDictionary

from ekiden.core.conversation.model import Model, ModelEvent, ModelRequest, ModelResponse
from ekiden.core.errors import UserError
from ekiden.core.integrations.lazy import is_installed
from ekiden.core.text.wording import full_model_name
from ekiden.models.registry import (
    DEFAULT_TIMEOUT_S,
    Backend,
    ModelOptions,
    RetryPolicy,
    Target,
    check_not_blocked,
    known_providers,
    origin,
    provider_factory,
    register_provider,
    target_of,
)

if TYPE_CHECKING:
    from ekiden.models.provider_client import ProviderClient

_INLINE_URL = re.compile(r"(?P<model>.+?)@(?P<url>https?://\S+)")

LOCAL = "local"
"""The provider of models in this process. Only for this provider may the name of the model be
empty."""

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


class ProviderModel:
    """A `Model` behind a provider's API.

    An attempt that fails for a transient reason (429, 5xx, no connection, timeout) is repeated
    according to the retry policy, but only before the first event. After the caller has seen a
    delta, a second attempt could contradict it, so the failure is raised.
    """

    def __init__(self, target: Target) -> None:
        self._target = target
        # A connection belongs to its event loop, and a program may have several loops one after
        # the other: every `asyncio.run` makes one.
        self._open: WeakKeyDictionary[asyncio.AbstractEventLoop, _OpenClient] = WeakKeyDictionary()

    async def respond(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """See `Model.respond`. Raises `UserError` for a request that cannot be sent."""
        check_not_blocked(self._target.base_url)
        client = await self._client()
        call = client.prepare(request)
        failed = 0
        while True:
            is_seen = False
            try:
                async with aclosing(client.attempt(call)) as events:
                    async for event in events:
                        is_seen = True
                        if isinstance(event, ModelResponse):
                            event.attempt = failed + 1
                        yield event
                return
            except Warning:
                raise
            except Exception as exc:
                failure = client.failure_of(exc)
            failed += 1
            again = failure.is_transient and not is_seen
            wait_s = self._target.retry.wait_s(failed, failure.retry_after) if again else None
            if wait_s is None:
                raise failure.error
            await self._target.retry.sleep(wait_s)

    async def warm_up(self) -> None:
        """Import the provider's packages and open its client. No request is sent."""
        await self._client()

    async def aclose(self) -> None:
        """Close the connections of the running event loop. The next call opens new connections.

        You do not need this method at the end of a program, because `asyncio.run` closes the
        connections of its loop.
        """
        opened = self._open.pop(asyncio.get_running_loop(), None)
        if opened is not None:
            await opened.closer.aclose()

    async def _client(self) -> ProviderClient:
        loop = asyncio.get_running_loop()
        if loop not in self._open:
            # In a thread, because the import of the provider's packages takes seconds.
            client = await asyncio.to_thread(_make_client, self._target)
            for other in [other for other in self._open if other.is_closed()]:
                del self._open[other]
            if loop not in self._open:
                closer = _close_with_loop(client)
                await anext(closer)
                self._open[loop] = _OpenClient(client, closer)
        return self._open[loop].client

    def __repr__(self) -> str:
        return f"<ProviderModel {self._target.label} at {origin(self._target.base_url)}>"


class _OpenClient(NamedTuple):
    client: ProviderClient
    closer: AsyncGenerator[None]
    """Closes the client when it is closed itself."""


async def _close_with_loop(client: ProviderClient) -> AsyncGenerator[None]:
    # asyncio has no hook for the end of a loop, but `asyncio.run` closes the asynchronous
    # generators that are still open: one that waits at its `yield` is such a hook.
    try:
        yield
    finally:
        await client.aclose()


def _make_client(target: Target) -> ProviderClient:
    from ekiden.models.provider_client import ProviderClient

    return ProviderClient(target)


def resolve_model(
    name: str,
    *,
    base_url: str | None = None,
    api_key: str | None = None,
    timeout_s: float = DEFAULT_TIMEOUT_S,
    retries: int | RetryPolicy = 3,
) -> Model:
    """Return the model with this name.

    `name` is ``provider:model``. For your own server it is ``provider:model@http://host/v1``. For a
    model in this process it is ``local:file.gguf``, or ``local:`` for the best model that Ekiden
    finds on this machine. The provider of ``gpt-…``, ``claude-…`` and ``gemini-…`` may be omitted.
    The URL comes from the first of these sources that is set: the name, `base_url`, the provider's
    environment variable, the provider's default. `timeout_s` limits each attempt; `retries` is the
    number of retries after a transient failure.

    This function makes no network call. Raises `UserError` for an unknown provider, a missing key
    or package, or an invalid URL.
    """
    prefix, colon, rest = (full_model_name(name) or name).partition(":")
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


def missing_key(name: str) -> str | None:
    """The environment variable that a built-in provider needs for its key; `None` if the variable
    is set."""
    prefix, _, model = (full_model_name(name) or name).partition(":")
    backend = BUILT_IN.get(prefix)
    if backend is None or "@http" in model or os.environ.get(backend.url_variable):
        return None
    return None if any(map(os.environ.get, backend.key_variables)) else backend.key_variables[0]


def _make(backend: Backend, options: ModelOptions) -> Model:
    missing = [module for module in backend.modules if not is_installed(module)]
    if missing:
        raise UserError(
            f"{options.provider}:{options.model} needs {' and '.join(missing)}: "
            "pip install 'ekiden[models]'"
        )
    return _shared(target_of(options, backend))


@lru_cache(maxsize=64)
def _shared(target: Target) -> ProviderModel:
    """One model, and so one connection pool, per target."""
    return ProviderModel(target)


def _make_local(options: ModelOptions) -> Model:
    from ekiden.models.local.local_model import make_local_model

    return make_local_model(options)


def _make_demo(options: ModelOptions) -> Model:
    from ekiden.models.demo import DemoModel

    return DemoModel()


for _prefix, _backend in BUILT_IN.items():
    register_provider(_prefix, partial(_make, _backend))
register_provider(LOCAL, _make_local)
register_provider("demo", _make_demo)
