"""The client of a provider. It sends requests through the library pydantic-ai, and translates
answers and failures."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

import httpx2
from pydantic import ValidationError
from pydantic_ai.exceptions import (
    ModelAPIError,
    ModelConnectionError,
    ModelHTTPError,
    ModelNotFoundError,
    ModelQuotaExceededError,
    ModelTimeoutError,
    UnexpectedModelBehavior,
    UserError as LibraryUserError,
)
from pydantic_ai.messages import ModelMessage, ModelResponse
from pydantic_ai.models import Model, ModelRequestParameters, create_async_httpx2_client
from pydantic_ai.providers import Provider
from pydantic_ai.settings import ModelSettings

from ekiden.core.conversation import model as core
from ekiden.core.errors import EkidenError, ModelBehaviorError, ModelError, ModelTimeout, UserError
from ekiden.models.registry import Api, Target, origin
from ekiden.models.requests import Receiver, library_settings, request_parameters, to_messages
from ekiden.models.responses import Deltas, to_response

_SHORTEST_KEY = 8

_NO_KEY = "no-key"
"""Sent if no key is needed, because the libraries require one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderConnection:
    """A model object of the library, with the features that its provider supports."""

    model: Model[Any]
    settings_type: type
    """The `TypedDict` with the names of the model's settings."""
    strict: bool
    """Whether requests tell the provider which schemas are strict."""


def _openai_responses(target: Target, http: httpx2.AsyncClient) -> ProviderConnection:
    from pydantic_ai.models.openai import OpenAIResponsesModel, OpenAIResponsesModelSettings

    return ProviderConnection(
        model=OpenAIResponsesModel(target.model, provider=_openai(target, http)),
        settings_type=OpenAIResponsesModelSettings,
        strict=True,
    )


def _openai_chat(target: Target, http: httpx2.AsyncClient) -> ProviderConnection:
    from pydantic_ai.models.openai import OpenAIChatModel, OpenAIChatModelSettings

    return ProviderConnection(
        model=OpenAIChatModel(target.model, provider=_openai(target, http)),
        settings_type=OpenAIChatModelSettings,
        strict=True,
    )


def _openai(target: Target, http: httpx2.AsyncClient) -> Provider[Any]:
    """OpenAI itself has features that compatible servers do not have."""
    from pydantic_ai.providers.openai import OpenAIProvider
    from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider

    key = target.api_key or _NO_KEY
    if target.is_official:
        return OpenAIProvider(base_url=target.base_url, api_key=key, http_client=http)
    return OpenAICompatibleProvider(
        target.source, base_url=target.base_url, api_key=key, http_client=http
    )


def _anthropic(target: Target, http: httpx2.AsyncClient) -> ProviderConnection:
    from pydantic_ai.models.anthropic import AnthropicModel, AnthropicModelSettings
    from pydantic_ai.providers.anthropic import AnthropicProvider

    provider = AnthropicProvider(
        api_key=target.api_key or _NO_KEY, base_url=target.base_url, http_client=http
    )
    return ProviderConnection(
        model=AnthropicModel(target.model, provider=provider),
        settings_type=AnthropicModelSettings,
        strict=False,
    )


def _google(target: Target, http: httpx2.AsyncClient) -> ProviderConnection:
    from pydantic_ai.models.google import GoogleModel, GoogleModelSettings
    from pydantic_ai.providers.google import GoogleProvider

    provider = GoogleProvider(
        api_key=target.api_key or _NO_KEY, base_url=target.base_url, http_client=http
    )
    return ProviderConnection(
        model=GoogleModel(target.model, provider=provider),
        settings_type=GoogleModelSettings,
        strict=False,
    )


_CONNECT: dict[Api, Callable[[Target, httpx2.AsyncClient], ProviderConnection]] = {
    "openai-responses": _openai_responses,
    "openai-chat": _openai_chat,
    "anthropic": _anthropic,
    "google": _google,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderCall:
    """A request that can be sent any number of times."""

    messages: list[ModelMessage]
    settings: ModelSettings
    parameters: ModelRequestParameters
    is_streamed: bool


class ProviderClient:
    """A provider's client with its connections."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._http = create_async_httpx2_client()
        self._connection = _CONNECT[target.api](target, self._http)
        self._endpoint = ModelEndpoint(
            label=target.label,
            where=origin(target.base_url),
            key_variable=target.key_variable,
            timeout_s=target.timeout_s,
            secret=_secret(target.api_key),
        )

    def prepare(self, request: core.ModelRequest) -> ProviderCall:
        """Convert a request to the provider's form. Raises `UserError` if this is not possible."""
        model = self._connection.model
        parameters = request_parameters(request, model, strict=self._connection.strict)
        receiver = Receiver(source=self._target.source, system=model.system)
        return ProviderCall(
            messages=model.prepare_messages(to_messages(request.input, receiver), parameters),
            settings=library_settings(
                request,
                self._connection.settings_type,
                label=self._target.label,
                timeout_s=self._target.timeout_s,
            ),
            parameters=parameters,
            is_streamed=request.stream,
        )

    def attempt(self, call: ProviderCall) -> AsyncGenerator[core.ModelEvent]:
        """Yield the events of one attempt. Closing the generator early closes the connection.

        Raises errors of the library, `TimeoutError`, `StreamCut` or an `EkidenError`.
        """
        return self._streamed(call) if call.is_streamed else self._plain(call)

    def failure_of(self, exc: Exception) -> AttemptFailure:
        """Convert an exception of `attempt` to an `AttemptFailure`."""
        return failure_of(exc, self._endpoint)

    async def aclose(self) -> None:
        """Close all connections."""
        await self._http.aclose()

    async def _plain(self, call: ProviderCall) -> AsyncGenerator[core.ModelEvent]:
        async with asyncio.timeout(self._target.timeout_s):
            response = await self._connection.model.request(
                call.messages, call.settings, call.parameters
            )
        yield self._answer(response)

    async def _streamed(self, call: ProviderCall) -> AsyncGenerator[core.ModelEvent]:
        """The events of a streamed answer. The consumer's own time does not count for the
        timeout."""
        loop = asyncio.get_running_loop()
        left = self._target.timeout_s
        deltas = Deltas()
        async with AsyncExitStack() as stack:
            start = loop.time()
            async with asyncio.timeout(left):
                stream = await stack.enter_async_context(
                    self._connection.model.request_stream(
                        call.messages, call.settings, call.parameters
                    )
                )
            events = aiter(stream)
            while True:
                left -= loop.time() - start
                start = loop.time()
                async with asyncio.timeout(left):
                    event = await anext(events, None)
                if event is None:
                    break
                delta = deltas.of(event)
                if delta is not None:
                    yield delta
                    start = loop.time()
            response = stream.get()
        if _is_cut(response):
            raise StreamCut("the stream ended before the answer was complete")
        yield self._answer(response)

    def _answer(self, response: ModelResponse) -> core.ModelResponse:
        return to_response(response, source=self._target.source, label=self._target.label)


def _secret(key: str | None) -> str | None:
    """The key to mask, unless it is so short that masking would change ordinary words."""
    return key if key and len(key) >= _SHORTEST_KEY else None


def _is_cut(response: ModelResponse) -> bool:
    """Whether the provider did not report that the answer is complete.

    Without a finish reason the library assumes that the model stopped, but a connection that was
    closed between two chunks looks the same.
    """
    is_reported = "finish_reason" in (response.provider_details or {})
    is_assumed = response.finish_reason in (None, "stop") and not is_reported
    return response.state != "complete" or is_assumed


_TRANSIENT = frozenset({408, 409, 425, 429})
_MAX_TEXT = 600
_MASK = "***"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelEndpoint:
    """Facts about a model for error messages."""

    label: str
    """``provider:model``."""
    where: str
    """Host and port."""
    key_variable: str | None
    """The environment variable that holds the key."""
    timeout_s: float
    secret: str | None = None
    """The key, which is masked in all texts. `None` if there is no secret key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptFailure:
    """One failed attempt."""

    error: EkidenError
    is_transient: bool
    """Whether the same request may succeed later."""
    retry_after: float | None = None
    """The delay that the provider asked for, in seconds."""


class StreamCut(Exception):
    """The stream ended before the answer was complete."""


def failure_of(exc: Exception, endpoint: ModelEndpoint) -> AttemptFailure:
    """Convert an exception of an attempt to an `AttemptFailure`."""
    match exc:
        case EkidenError():
            return AttemptFailure(error=exc, is_transient=False)
        case TimeoutError() | ModelTimeoutError(phase=None | "read" | "write"):
            timeout = ModelTimeout(endpoint.label, endpoint.timeout_s)
            return _caused(timeout, exc, endpoint, is_transient=True)
        case ModelHTTPError():
            return _http_failure(exc, endpoint)
        case ModelConnectionError() | StreamCut():
            text = _tidy(str(exc) or type(exc).__name__, endpoint)
            lost = ModelError(
                f"the connection to {endpoint.label} at {endpoint.where} failed: {text}; check "
                "that the address is right and can be reached"
            )
            return _caused(lost, exc, endpoint, is_transient=True)
        case LibraryUserError():
            refused = UserError(f"{endpoint.label}: {_tidy(str(exc), endpoint)}")
            return _caused(refused, exc, endpoint)
        case ModelAPIError() if not _is_unreadable(exc):
            text = _tidy(_message_in(exc.body) or str(exc), endpoint)
            return _caused(ModelError(f"{endpoint.label} failed: {text}"), exc, endpoint)
        case _:
            return _caused(_unreadable(exc, endpoint), exc, endpoint)


def _http_failure(exc: ModelHTTPError, endpoint: ModelEndpoint) -> AttemptFailure:
    status = exc.status_code
    no_quota = isinstance(exc, ModelQuotaExceededError)
    is_transient = (status in _TRANSIENT or status >= 500) and not no_quota
    if exc.provider_retry_hint is not None and status not in (401, 403):
        is_transient = exc.provider_retry_hint
    reason = _tidy(_message_in(exc.body) or "no reason given", endpoint)
    text = f"{endpoint.label} answered {status}: {reason}{_advice(exc, endpoint)}"
    return _caused(
        ModelError(text, status=status),
        exc,
        endpoint,
        is_transient=is_transient,
        retry_after=exc.retry_after,
    )


def _advice(exc: ModelHTTPError, endpoint: ModelEndpoint) -> str:
    status = exc.status_code
    if status in (401, 403):
        where = f"set {endpoint.key_variable}" if endpoint.key_variable else "pass api_key="
        return f"; the key is missing, wrong or may not use this model: {where}"
    if status == 404 or isinstance(exc, ModelNotFoundError):
        maybe = f", perhaps {exc.suggested_model_id!r}" if exc.suggested_model_id else ""
        return f"; {endpoint.where} has no such model or path: check the name and base URL{maybe}"
    if isinstance(exc, ModelQuotaExceededError):
        return "; the account's quota or credit is used up"
    if status == 429 and exc.retry_after is not None:
        return f"; the provider asks to wait {exc.retry_after:g} s"
    return ""


def _unreadable(exc: Exception, endpoint: ModelEndpoint) -> ModelBehaviorError:
    text = str(exc)
    if isinstance(exc, ValidationError):
        text = f"{exc.error_count()} fields are wrong or missing"
    elif not isinstance(exc, ModelAPIError | UnexpectedModelBehavior):
        text = f"{type(exc).__name__}: {text}"
    text = _tidy(text, endpoint)
    return ModelBehaviorError(f"the answer of {endpoint.label} cannot be read: {text}")


def _is_unreadable(exc: ModelAPIError) -> bool:
    """Whether the provider answered, but not with JSON."""
    undecoded = isinstance(exc.__cause__, json.JSONDecodeError | UnicodeDecodeError)
    return undecoded or exc.message.startswith("Expected a JSON response")


def _caused(
    error: EkidenError,
    cause: Exception,
    endpoint: ModelEndpoint,
    *,
    is_transient: bool = False,
    retry_after: float | None = None,
) -> AttemptFailure:
    """The failure with its cause, unless a text in the chain of causes contains the key."""
    error.__cause__ = None if _contains(cause, endpoint.secret) else cause
    error.__suppress_context__ = True
    return AttemptFailure(error=error, is_transient=is_transient, retry_after=retry_after)


def _contains(exc: BaseException | None, secret: str | None) -> bool:
    while exc is not None and secret:
        if secret in str(exc) or secret in repr(exc):
            return True
        exc = exc.__cause__ or exc.__context__
    return False


def _message_in(body: object) -> str | None:
    """The message in the body of an error, in the form of any provider."""
    found: Any = body
    for _ in range(3):
        if isinstance(found, list) and found:
            found = found[0]
        if not isinstance(found, dict):
            break
        message = found.get("message") or found.get("detail")
        if isinstance(message, str):
            return message
        found = found.get("error")
    return found if isinstance(found, str) and found else None


def _tidy(text: str, endpoint: ModelEndpoint) -> str:
    if endpoint.secret:
        text = text.replace(endpoint.secret, _MASK)
    line = " ".join(text.split()).rstrip(".")
    return line if len(line) <= _MAX_TEXT else f"{line[:_MAX_TEXT]}…"
