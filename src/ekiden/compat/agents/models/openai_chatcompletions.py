"""OpenAI's Chat Completions, and every server that speaks the same."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

from openai import AsyncOpenAI
from openai.types.responses import Response, ResponseUsage

from ekiden.compat.agents.exceptions import ModelBehaviorError, UserError
from ekiden.compat.agents.items import ModelResponse
from ekiden.compat.agents.logger import logger
from ekiden.compat.agents.models.chatcmpl_converter import Converter
from ekiden.compat.agents.models.chatcmpl_helpers import HEADERS, HEADERS_OVERRIDE, ChatCmplHelpers
from ekiden.compat.agents.models.chatcmpl_stream_handler import ChatCmplStreamHandler, usage_data
from ekiden.compat.agents.models.fake_id import FAKE_RESPONSES_ID
from ekiden.compat.agents.models.interface import Model, ModelTracing
from ekiden.compat.agents.models.openai_client_utils import is_official_openai_client
from ekiden.compat.agents.models.openai_responses import is_left_out, retry_advice, usage_of
from ekiden.compat.agents.models.reasoning_content_replay import ShouldReplayReasoningContent
from ekiden.compat.agents.retry import ModelRetryAdvice, ModelRetryAdviceRequest
from ekiden.compat.agents.tracing.create import generation_span
from ekiden.compat.agents.usage import Usage, model_usage_to_span_usage


class OpenAIChatCompletionsModel(Model):
    """A model that is called through OpenAI's Chat Completions API."""

    def __init__(
        self,
        model: str,
        openai_client: AsyncOpenAI,
        should_replay_reasoning_content: ShouldReplayReasoningContent | None = None,
        strict_feature_validation: bool = False,
        buffer_streamed_tool_calls: bool = False,
    ) -> None:
        self.model = model
        self.should_replay_reasoning_content = should_replay_reasoning_content
        self._client = openai_client
        self._strict = strict_feature_validation

    def get_retry_advice(self, request: ModelRetryAdviceRequest) -> ModelRetryAdvice | None:
        """The retry advice, from the errors of the package `openai`."""
        return retry_advice(request)

    async def get_response(
        self,
        system_instructions: str | None,
        input: str | list[Any],
        model_settings: Any,
        tools: list[Any],
        output_schema: Any,
        handoffs: list[Any],
        tracing: ModelTracing,
        previous_response_id: str | None = None,
        conversation_id: str | None = None,
        prompt: Any = None,
    ) -> ModelResponse:
        """The whole answer."""
        self._check(previous_response_id, conversation_id, prompt)
        body = self._body(
            system_instructions, input, model_settings, tools, output_schema, handoffs
        )
        with self._span(body, model_settings, tracing) as span:
            answer: Any = await self._client.chat.completions.create(**body)
            if not answer.choices:
                raise ModelBehaviorError(f"the answer of {self.model} has no choices")
            data = usage_data(answer.usage)
            usage = _usage(data)
            message = answer.choices[0].message
            span.span_data.usage = model_usage_to_span_usage(usage)
            if tracing.include_data() and message:
                span.span_data.output = [message.model_dump()]
        origin = {"model": self.model, "response_id": answer.id}
        raw = answer.usage.model_dump() if model_settings.preserve_raw_usage and data else None
        return ModelResponse(
            output=Converter.message_to_output_items(message, origin, self._strict)
            if message
            else [],
            usage=usage,
            response_id=None,
            request_id=getattr(answer, "_request_id", None),
            raw_usage=raw,
        )

    async def stream_response(
        self,
        system_instructions: str | None,
        input: str | list[Any],
        model_settings: Any,
        tools: list[Any],
        output_schema: Any,
        handoffs: list[Any],
        tracing: ModelTracing,
        previous_response_id: str | None = None,
        conversation_id: str | None = None,
        prompt: Any = None,
    ) -> AsyncIterator[Any]:
        """The answer as events of the Responses API."""
        self._check(previous_response_id, conversation_id, prompt)
        body = self._body(
            system_instructions, input, model_settings, tools, output_schema, handoffs, stream=True
        )
        stream: Any = await self._client.chat.completions.create(**body, stream=True)
        choice = body.get("tool_choice", "auto")
        begun = Response(
            id=FAKE_RESPONSES_ID,
            created_at=time.time(),
            model=self.model,
            object="response",
            output=[],
            tool_choice=choice if isinstance(choice, str) else "auto",  # type: ignore[arg-type]
            top_p=model_settings.top_p,
            temperature=model_settings.temperature,
            tools=[],
            parallel_tool_calls=model_settings.parallel_tool_calls or False,
        )
        span = self._span(body, model_settings, tracing)
        span.start(mark_as_current=False)
        span.span_data.usage = model_usage_to_span_usage(Usage(requests=1))
        try:
            async for event in ChatCmplStreamHandler.handle_stream(
                begun,
                stream,
                model=self.model,
                needs_finish_reason=is_official_openai_client(self._client),
            ):
                if event.type == "response.completed":
                    if event.response.usage is not None:
                        usage = usage_of(event.response)
                        span.span_data.usage = model_usage_to_span_usage(usage)
                    if tracing.include_data():
                        span.span_data.output = [e.model_dump() for e in event.response.output]
                yield event
        finally:
            span.finish()
            close = getattr(stream, "close", None)
            if close is not None:
                with suppress(Exception):
                    await close()

    def _span(self, body: dict[str, Any], settings: Any, tracing: ModelTracing) -> Any:
        return generation_span(
            model=self.model,
            model_config={**settings.to_traceable_dict(), "base_url": str(self._client.base_url)},
            input=body["messages"] if tracing.include_data() else None,
            disabled=tracing.is_disabled(),
        )

    def _check(self, previous: str | None, conversation: str | None, prompt: Any) -> None:
        given = {
            "previous_response_id": previous,
            "conversation_id": conversation,
            "prompt": prompt,
        }
        unknown = [name for name, value in given.items() if value is not None]
        if unknown and self._strict:
            raise UserError(f"Chat Completions does not support {', '.join(unknown)}")
        if unknown:
            logger.warning("Chat Completions does not support %s: ignored", ", ".join(unknown))

    def _body(
        self,
        instructions: str | None,
        input: str | list[Any],
        settings: Any,
        tools: list[Any],
        output_schema: Any,
        handoffs: list[Any],
        *,
        stream: bool = False,
    ) -> dict[str, Any]:
        messages = Converter.items_to_messages(
            input,
            model=self.model,
            base_url=str(self._client.base_url),
            should_replay_reasoning_content=self.should_replay_reasoning_content,
            strict_feature_validation=self._strict,
        )
        if instructions:
            messages.insert(0, {"content": instructions, "role": "system"})
        converted = [Converter.tool_to_openai(tool) for tool in tools]
        converted += [Converter.convert_handoff_tool(each) for each in handoffs]
        effort = None if settings.reasoning is None else settings.reasoning.effort
        logprobs = settings.top_logprobs
        body = {
            "model": self.model,
            "messages": messages,
            "tools": converted or None,
            "temperature": settings.temperature,
            "top_p": settings.top_p,
            "frequency_penalty": settings.frequency_penalty,
            "presence_penalty": settings.presence_penalty,
            "max_tokens": settings.max_tokens,
            "tool_choice": Converter.convert_tool_choice(settings.tool_choice),
            "response_format": Converter.convert_response_format(output_schema),
            "parallel_tool_calls": settings.parallel_tool_calls if converted else None,
            "stream_options": ChatCmplHelpers.get_stream_options_param(
                self._client, settings, stream
            ),
            "store": ChatCmplHelpers.get_store_param(self._client, settings),
            "reasoning_effort": effort,
            "verbosity": settings.verbosity,
            "top_logprobs": logprobs,
            "logprobs": True if logprobs is not None else None,
            "prompt_cache_retention": settings.prompt_cache_retention,
            "metadata": settings.metadata,
        }
        body = {key: value for key, value in body.items() if not is_left_out(value)}
        headers = {**HEADERS, **(settings.extra_headers or {}), **(HEADERS_OVERRIDE.get() or {})}
        given = {"extra_headers": headers, "extra_query": settings.extra_query}
        given["extra_body"] = settings.extra_body
        return {**body, **given, **(settings.extra_args or {})}


def _usage(data: dict[str, Any] | None) -> Usage:
    if data is None:
        return Usage()
    return usage_of(_WithUsage(ResponseUsage.model_validate(data)))


class _WithUsage:
    def __init__(self, usage: ResponseUsage) -> None:
        self.usage = usage
