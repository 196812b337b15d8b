"""One attempt at a provider: the request out, the answer in, on one event loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any, cast

import httpx2
from pydantic_ai.messages import InstructionPart, ModelMessage, ModelResponse
from pydantic_ai.models import Model, ModelRequestParameters, create_async_httpx2_client
from pydantic_ai.output import OutputObjectDefinition
from pydantic_ai.providers import Provider
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition

from ekiden.core.conversation import model as core
from ekiden.core.errors import UserError
from ekiden.models.answers import Deltas, to_response
from ekiden.models.failures import AttemptFailure, ModelEndpoint, StreamCut, failure_of
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
