"""One attempt at a provider: the request out, the answer in, on one event loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from dataclasses import dataclass

from pydantic_ai.messages import ModelMessage, ModelResponse
from pydantic_ai.models import ModelRequestParameters, create_async_httpx2_client
from pydantic_ai.settings import ModelSettings

from ekiden.core import model as core
from ekiden.models.answers import Deltas, to_response
from ekiden.models.connect import connect
from ekiden.models.failures import Caller, Failure, StreamCut, failure_of
from ekiden.models.guard import origin
from ekiden.models.history import Receiver, to_messages
from ekiden.models.requests import library_settings, request_parameters
from ekiden.models.target import Target

_SHORTEST_KEY = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A request, ready to be sent any number of times."""

    messages: list[ModelMessage]
    settings: ModelSettings
    parameters: ModelRequestParameters
    is_streamed: bool


class Exchange:
    """A provider's client with its connections."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._http = create_async_httpx2_client()
        self._connection = connect(target, self._http)
        self._caller = Caller(
            label=target.label,
            where=origin(target.base_url),
            key_variable=target.key_variable,
            timeout_s=target.timeout_s,
            secret=_secret(target.api_key),
        )

    def prepare(self, request: core.ModelRequest) -> Call:
        """The request in the provider's words; `UserError` when it cannot be said there."""
        model = self._connection.model
        parameters = request_parameters(request, model, strict=self._connection.strict)
        receiver = Receiver(source=self._target.source, system=model.system)
        return Call(
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

    def attempt(self, call: Call) -> AsyncGenerator[core.ModelEvent]:
        """The events of one attempt; closing it early closes the connection.

        Raises what the library raises, `TimeoutError`, `StreamCut`, or an error of ours.
        """
        return self._streamed(call) if call.is_streamed else self._plain(call)

    def failure_of(self, exc: Exception) -> Failure:
        """What an exception of `attempt` means."""
        return failure_of(exc, self._caller)

    async def aclose(self) -> None:
        await self._http.aclose()

    async def _plain(self, call: Call) -> AsyncGenerator[core.ModelEvent]:
        async with asyncio.timeout(self._target.timeout_s):
            response = await self._connection.model.request(
                call.messages, call.settings, call.parameters
            )
        yield self._answer(response)

    async def _streamed(self, call: Call) -> AsyncGenerator[core.ModelEvent]:
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
