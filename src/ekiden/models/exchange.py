"""One attempt at a provider: the request, the answer, and failures in our words."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any, cast

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
from pydantic_ai.messages import InstructionPart, ModelMessage, ModelResponse
from pydantic_ai.models import Model, ModelRequestParameters, create_async_httpx2_client
from pydantic_ai.output import OutputObjectDefinition
from pydantic_ai.providers import Provider
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition

from ekiden.core.conversation import model as core
from ekiden.core.errors import EkidenError, ModelBehaviorError, ModelError, ModelTimeout, UserError
from ekiden.models.answers import Deltas, to_response
from ekiden.models.history import Receiver, to_messages
from ekiden.models.registry import Api, Target, origin

_SHORTEST_KEY = 8

_EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
_CHOICES = ("auto", "required", "none")
_OURS = frozenset({"timeout", "request_timeout", "first_event_timeout", "max_retries"})

_NO_KEY = "no-key"
"""Sent where no key is needed, since the clients insist on one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderConnection:
    """A model that can be called."""

    model: Model[Any]
    settings_type: type
    """The names that its settings may have."""
    strict: bool
    """Whether strict schemas are passed on."""


def connect(target: Target, http: httpx2.AsyncClient) -> ProviderConnection:
    """The model of `target`; nothing is called yet."""
    return _CONNECT[target.api](target, http)


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
    """OpenAI itself has features that a server which only speaks its language has not."""
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


def request_parameters(
    request: core.ModelRequest, model: Model[Any], *, strict: bool
) -> ModelRequestParameters:
    """Tools, output and instructions.

    `strict` is whether the provider takes strict schemas without limits of its own. A model that
    has no native structured output is told the schema in its instructions.
    """
    parameters = ModelRequestParameters(
        function_tools=[
            ToolDefinition(
                name=tool.name,
                description=tool.description,
                parameters_json_schema=tool.parameters,
                strict=tool.strict if strict else None,
            )
            for tool in request.tools
        ],
    )
    if request.instructions:
        parameters.instruction_parts = [InstructionPart(content=request.instructions)]
    if request.output is not None:
        is_native = model.profile.get("supports_json_schema_output", False)
        parameters.output_mode = "native" if is_native else "prompted"
        parameters.output_object = OutputObjectDefinition(
            name=request.output.name,
            json_schema=request.output.json_schema,
            strict=request.output.strict if strict else None,
        )
    return parameters


def library_settings(
    request: core.ModelRequest, settings_type: type, *, label: str, timeout_s: float
) -> ModelSettings:
    """The settings of one call; `UserError` for a value that cannot be one.

    Of ``extra``, what the library knows by name is a setting, and the rest goes into the body of
    the request as it is.
    """
    wishes = request.settings
    given: dict[str, Any] = {
        "temperature": wishes.temperature,
        "top_p": wishes.top_p,
        "max_tokens": wishes.max_tokens,
        "parallel_tool_calls": wishes.parallel_tool_calls if request.tools else None,
        "tool_choice": _tool_choice(request, label),
        "thinking": _thinking(wishes.reasoning_effort),
    }
    settings = {name: value for name, value in given.items() if value is not None}
    known = settings_type.__annotations__.keys() | ModelSettings.__annotations__.keys()
    body: dict[str, Any] = {}
    for name, value in (wishes.extra or {}).items():
        if name in _OURS:
            raise UserError(
                f"{name} is not for `extra`: give timeout_s and retries to resolve_model()"
            )
        (settings if name in known else body)[name] = value
    if body:
        settings["extra_body"] = {**settings.get("extra_body", {}), **body}
    return cast("ModelSettings", {**settings, "timeout": timeout_s, "max_retries": 0})


def _tool_choice(request: core.ModelRequest, label: str) -> str | list[str] | None:
    choice = request.settings.tool_choice
    if choice is None or not request.tools:
        return None
    if choice in _CHOICES:
        return choice
    offered = [tool.name for tool in request.tools]
    if choice not in offered:
        raise UserError(
            f"tool_choice {choice!r} names no tool that {label} is offered; "
            f"it may be auto, required, none or one of: {', '.join(offered)}"
        )
    return [choice]


def _thinking(effort: str | None) -> str | bool | None:
    if effort is None or effort in _EFFORTS:
        return False if effort == "none" else effort
    raise UserError(f"reasoning_effort {effort!r} is unknown; use one of {', '.join(_EFFORTS)}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderCall:
    """A request, ready to be sent any number of times."""

    messages: list[ModelMessage]
    settings: ModelSettings
    parameters: ModelRequestParameters
    is_streamed: bool


class ProviderClient:
    """A provider's client with its connections."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._http = create_async_httpx2_client()
        self._connection = connect(target, self._http)
        self._caller = ModelEndpoint(
            label=target.label,
            where=origin(target.base_url),
            key_variable=target.key_variable,
            timeout_s=target.timeout_s,
            secret=_secret(target.api_key),
        )

    def prepare(self, request: core.ModelRequest) -> ProviderCall:
        """The request in the provider's words; `UserError` when it cannot be said there."""
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
        """The events of one attempt; closing it early closes the connection.

        Raises what the library raises, `TimeoutError`, `StreamCut`, or an error of ours.
        """
        return self._streamed(call) if call.is_streamed else self._plain(call)

    def failure_of(self, exc: Exception) -> AttemptFailure:
        """What an exception of `attempt` means."""
        return failure_of(exc, self._caller)

    async def aclose(self) -> None:
        await self._http.aclose()

    async def _plain(self, call: ProviderCall) -> AsyncGenerator[core.ModelEvent]:
        async with asyncio.timeout(self._target.timeout_s):
            response = await self._connection.model.request(
                call.messages, call.settings, call.parameters
            )
        yield self._answer(response)

    async def _streamed(self, call: ProviderCall) -> AsyncGenerator[core.ModelEvent]:
        """Only time spent waiting for the provider counts against the time-out."""
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
    """The key, unless it is a placeholder so short that ordinary words would have to be hidden."""
    return key if key and len(key) >= _SHORTEST_KEY else None


def _is_cut(response: ModelResponse) -> bool:
    """Whether the provider never said that the answer is complete.

    Where no reason came, the library assumes that the model just stopped; a connection that was
    closed between two pieces looks the same.
    """
    is_assumed = response.finish_reason == "stop" and "finish_reason" not in (
        response.provider_details or {}
    )
    return response.state != "complete" or response.finish_reason is None or is_assumed


_AGAIN = frozenset({408, 409, 425, 429})
_LONGEST = 600
HIDDEN = "***"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelEndpoint:
    """Who asked, as failures name it."""

    label: str
    """``provider:model``."""
    where: str
    """Host and port."""
    key_variable: str | None
    """The environment variable that holds the key."""
    timeout_s: float
    secret: str | None = None
    """The key: it must not be in any text. `None` when there is none, or none that is a secret."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptFailure:
    """One failed attempt."""

    error: EkidenError
    again: bool
    """Whether the same request may succeed later."""
    retry_after: float | None = None
    """How long the provider asked to wait."""


class StreamCut(Exception):
    """The stream ended before the answer was complete."""


def failure_of(exc: Exception, caller: ModelEndpoint) -> AttemptFailure:
    """What `exc`, raised while the provider was asked, means."""
    match exc:
        case EkidenError():
            return AttemptFailure(error=exc, again=False)
        case TimeoutError() | ModelTimeoutError(phase=None | "read" | "write"):
            return _caused(ModelTimeout(caller.label, caller.timeout_s), exc, caller, again=True)
        case ModelHTTPError():
            return _http_failure(exc, caller)
        case ModelConnectionError() | StreamCut():
            text = _tidy(str(exc) or type(exc).__name__, caller)
            lost = ModelError(
                f"the connection to {caller.label} at {caller.where} failed: {text}; check that "
                "the address is right and can be reached"
            )
            return _caused(lost, exc, caller, again=True)
        case LibraryUserError():
            refused = UserError(f"{caller.label}: {_tidy(str(exc), caller)}")
            return _caused(refused, exc, caller, again=False)
        case ModelAPIError() if not _is_unreadable(exc):
            text = _tidy(_said(exc.body) or str(exc), caller)
            return _caused(ModelError(f"{caller.label} failed: {text}"), exc, caller, again=False)
        case _:
            return _caused(_unreadable(exc, caller), exc, caller, again=False)


def _http_failure(exc: ModelHTTPError, caller: ModelEndpoint) -> AttemptFailure:
    status = exc.status_code
    again = (status in _AGAIN or status >= 500) and not isinstance(exc, ModelQuotaExceededError)
    if exc.provider_retry_hint is not None and status not in (401, 403):
        again = exc.provider_retry_hint
    said = _tidy(_said(exc.body) or "no reason given", caller)
    text = f"{caller.label} answered {status}: {said}{_advice(exc, caller)}"
    return _caused(
        ModelError(text, status=status), exc, caller, again=again, retry_after=exc.retry_after
    )


def _advice(exc: ModelHTTPError, caller: ModelEndpoint) -> str:
    status = exc.status_code
    if status in (401, 403):
        where = f"set {caller.key_variable}" if caller.key_variable else "pass api_key="
        return f"; the key is missing, wrong or may not use this model: {where}"
    if status == 404 or isinstance(exc, ModelNotFoundError):
        maybe = f", perhaps {exc.suggested_model_id!r}" if exc.suggested_model_id else ""
        return f"; {caller.where} has no such model or path: check the name and base URL{maybe}"
    if isinstance(exc, ModelQuotaExceededError):
        return "; the account's quota or credit is used up"
    if status == 429 and exc.retry_after is not None:
        return f"; the provider asks to wait {exc.retry_after:g} s"
    return ""


def _unreadable(exc: Exception, caller: ModelEndpoint) -> ModelBehaviorError:
    said = str(exc)
    if isinstance(exc, ValidationError):
        said = f"{exc.error_count()} fields are wrong or missing"
    elif not isinstance(exc, ModelAPIError | UnexpectedModelBehavior):
        said = f"{type(exc).__name__}: {said}"
    return ModelBehaviorError(f"the answer of {caller.label} cannot be read: {_tidy(said, caller)}")


def _is_unreadable(exc: ModelAPIError) -> bool:
    """Whether the provider answered, but not with JSON."""
    undecoded = isinstance(exc.__cause__, json.JSONDecodeError | UnicodeDecodeError)
    return undecoded or exc.message.startswith("Expected a JSON response")


def _caused(
    error: EkidenError,
    cause: Exception,
    caller: ModelEndpoint,
    *,
    again: bool,
    retry_after: float | None = None,
) -> AttemptFailure:
    """The failure with its cause, unless a text in the chain of causes holds the key."""
    error.__cause__ = None if _holds(cause, caller.secret) else cause
    error.__suppress_context__ = True
    return AttemptFailure(error=error, again=again, retry_after=retry_after)


def _holds(exc: BaseException | None, secret: str | None) -> bool:
    while exc is not None and secret:
        if secret in str(exc) or secret in repr(exc):
            return True
        exc = exc.__cause__ or exc.__context__
    return False


def _said(body: object) -> str | None:
    """The message in an error's body, whichever provider's shape it has."""
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


def _tidy(text: str, caller: ModelEndpoint) -> str:
    """One bounded line without the key."""
    if caller.secret:
        text = text.replace(caller.secret, HIDDEN)
    line = " ".join(text.split()).rstrip(".")
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]}…"
