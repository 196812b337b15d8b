"""Models by name: ``provider:model``, made by the built-in providers or by registered ones."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from functools import lru_cache, partial
from importlib.util import find_spec
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from ekiden.core.conversation.model import Model, ModelEvent, ModelRequest, ModelResponse
from ekiden.core.errors import UserError
from ekiden.core.text.names import full_model_name
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
    from ekiden.models.exchange import ProviderClient

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


class ProviderModel:
    """`Model` over a provider's API.

    An attempt that fails for a passing reason (429, 5xx, no connection, time-out) is repeated as
    the target's policy says, but only as long as nothing of it was given out: once the consumer
    has seen a delta, a second attempt would tell another story, so the failure is raised.
    """

    def __init__(self, target: Target) -> None:
        self._target = target
        # A connection belongs to the event loop it was opened on, and a program may have several
        # loops after each other: every `asyncio.run` makes one.
        self._open: WeakKeyDictionary[asyncio.AbstractEventLoop, _Held] = WeakKeyDictionary()

    async def respond(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """See `Model.respond`. Raises `UserError` for a request that cannot be sent."""
        check_not_blocked(self._target.base_url)
        exchange = await self._exchange()
        call = exchange.prepare(request)
        failed = 0
        while True:
            is_seen = False
            try:
                async with aclosing(exchange.attempt(call)) as events:
                    async for event in events:
                        is_seen = True
                        if isinstance(event, ModelResponse):
                            event.attempt = failed + 1
                        yield event
                return
            except Warning:
                raise
            except Exception as exc:
                failure = exchange.failure_of(exc)
            failed += 1
            again = failure.again and not is_seen
            wait_s = self._target.retry.wait_s(failed, failure.retry_after) if again else None
            if wait_s is None:
                raise failure.error
            await self._target.retry.sleep(wait_s)

    async def warm_up(self) -> None:
        """Import the provider's packages and open its client; sends nothing."""
        await self._exchange()

    async def aclose(self) -> None:
        """Close the connections of the running loop; the next call opens new ones.

        Not needed at the end of a program: `asyncio.run` closes what its loop has open.
        """
        held = self._open.pop(asyncio.get_running_loop(), None)
        if held is not None:
            await held.aclose()

    async def _exchange(self) -> ProviderClient:
        loop = asyncio.get_running_loop()
        if loop not in self._open:
            # The packages behind it take seconds to import; the loop goes on meanwhile.
            exchange = await asyncio.to_thread(_make_exchange, self._target)
            for other in [other for other in self._open if other.is_closed()]:
                del self._open[other]
            if loop not in self._open:
                held = _Held(exchange)
                await held.start()
                self._open[loop] = held
        return self._open[loop].exchange

    def __repr__(self) -> str:
        return f"<ProviderModel {self._target.label} at {origin(self._target.base_url)}>"


class _Held:
    """An exchange that is closed with its loop.

    asyncio has no hook for the end of a loop, but `asyncio.run` closes the asynchronous
    generators that are still open then: one that waits at its `yield` is such a hook.
    """

    def __init__(self, exchange: ProviderClient) -> None:
        self.exchange = exchange
        self._keeper = _keep(exchange)

    async def start(self) -> None:
        await anext(self._keeper)

    async def aclose(self) -> None:
        await self._keeper.aclose()


async def _keep(exchange: ProviderClient) -> AsyncGenerator[None]:
    try:
        yield
    finally:
        await exchange.aclose()


def _make_exchange(target: Target) -> ProviderClient:
    from ekiden.models.exchange import ProviderClient

    return ProviderClient(target)


def resolve_model(
    name: str,
    *,
    base_url: str | None = None,
    api_key: str | None = None,
    timeout_s: float = DEFAULT_TIMEOUT_S,
    retries: int | RetryPolicy = 3,
) -> Model:
    """The model with this `name`.

    `name` is ``provider:model``. For your own server it is ``provider:model@http://host/v1``. For a
    model in this process it is ``local:file.gguf``, or ``local:`` for the best model found. The
    provider of ``gpt-…``, ``claude-…`` and ``gemini-…`` may be omitted. The URL is, in this order:
    the one in the name, `base_url`, the provider's environment variable, the provider's default.
    `timeout_s` limits each attempt; `retries` is the number of retries after a transient failure.

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
    """The environment variable that must be set for a model of a built-in provider; else `None`."""
    prefix, _, model = (full_model_name(name) or name).partition(":")
    backend = BUILT_IN.get(prefix)
    if backend is None or "@http" in model or os.environ.get(backend.url_variable):
        return None
    return None if any(map(os.environ.get, backend.key_variables)) else backend.key_variables[0]


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


def _make_demo(options: ModelOptions) -> Model:
    from ekiden.models.demo import DemoModel

    return DemoModel()


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except (ImportError, ValueError):
        return False


for _prefix, _backend in BUILT_IN.items():
    register_provider(_prefix, partial(_make, _backend))
register_provider(LOCAL, _make_local)
register_provider("demo", _make_demo)
