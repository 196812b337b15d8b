"""OpenAI's Responses API: requests out of the SDK's objects, over HTTP or a WebSocket."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NotRequired

from openai import AsyncOpenAI, NotGiven, Omit, omit
from openai.types.responses import Response, ResponseCompletedEvent, ResponseStreamEvent
from pydantic import BaseModel, TypeAdapter
from typing_extensions import TypedDict

from ekiden.compat.agents import hosted_tools as hosted
from ekiden.compat.agents.computer import AsyncComputer, Computer
from ekiden.compat.agents.exceptions import UserError
from ekiden.compat.agents.items import ModelResponse
from ekiden.compat.agents.model_settings import MCPToolChoice
from ekiden.compat.agents.models.fake_id import FAKE_RESPONSES_ID
from ekiden.compat.agents.models.interface import Model, ModelTracing
from ekiden.compat.agents.retry import ModelRetryAdvice, ModelRetryAdviceRequest, normalized
from ekiden.compat.agents.tool import FunctionTool
from ekiden.compat.agents.tracing.create import response_span
from ekiden.compat.agents.usage import Usage, input_details

_BY_TYPE = frozenset([
    "file_search", "web_search", "web_search_preview", "image_generation", "code_interpreter",
    "mcp", "programmatic_tool_calling", "computer_use_preview",
])  # fmt: skip
"""Tool choices that name a kind of tool and not a function."""


@dataclass
class ConvertedTools:
    """Tools as the API takes them, and what it has to include for them."""

    tools: list[Any]
    includes: list[Any]


class Converter:
    """The SDK's objects as parameters of a request."""

    @classmethod
    def convert_tool_choice(
        cls,
        tool_choice: Any,
        *,
        tools: Sequence[Any] | None = None,
        handoffs: Sequence[Any] | None = None,
        model: str | None = None,
    ) -> Any:
        """The tool that the model has to call, or how free it is."""
        if tool_choice is None:
            return omit
        if isinstance(tool_choice, MCPToolChoice):
            label, name = tool_choice.server_label, tool_choice.name
            return {"server_label": label, "type": "mcp", "name": name}
        if tool_choice in ("auto", "required", "none"):
            return tool_choice
        kinds: set[Any] = {getattr(tool, "type", None) for tool in tools or ()}
        has_computer = any(isinstance(tool, hosted.ComputerTool) for tool in tools or ())
        if tool_choice in ("computer", "computer_use", "computer_use_preview") and has_computer:
            return {"type": _computer_type(model, tool_choice)}
        if tool_choice in _BY_TYPE or tool_choice in {"shell", "apply_patch"} & kinds:
            return {"type": tool_choice}
        return {"type": "function", "name": tool_choice}

    @classmethod
    def resolve_computer_tool_model(
        cls, *, request_model: str | None, tools: Sequence[Any] | None
    ) -> str | None:
        """The model that decides which kind of computer tool is sent."""
        has_computer = any(isinstance(tool, hosted.ComputerTool) for tool in tools or ())
        return request_model if has_computer else None

    @classmethod
    def get_response_format(cls, output_schema: Any) -> Any:
        """The form of a structured answer."""
        if output_schema is None or output_schema.is_plain_text():
            return omit
        form = {
            "type": "json_schema",
            "name": "final_output",
            "schema": output_schema.json_schema(),
        }
        return {"format": {**form, "strict": output_schema.is_strict_json_schema()}}

    @classmethod
    def convert_tools(
        cls,
        tools: list[Any],
        handoffs: list[Any],
        *,
        allow_opaque_tool_search_surface: bool = False,
        model: str | None = None,
        tool_choice: Any = None,
    ) -> ConvertedTools:
        """Tools and handoffs; tools of a namespace are grouped where its first one is."""
        computers = [tool for tool in tools if isinstance(tool, hosted.ComputerTool)]
        if len(computers) > 1:
            raise UserError(f"You can only provide one computer tool. Got {len(computers)}")
        converted: list[dict[str, Any]] = []
        includes: list[str] = []
        namespaces: dict[str, dict[str, Any]] = {}
        for tool in tools:
            name = getattr(tool, "namespace", None)
            param, include = _tool_param(tool, model, tool_choice)
            includes += [include] if include else []
            if not name:
                converted.append(param)
                continue
            description = tool.namespace_description or ""
            if name not in namespaces:
                group = {"type": "namespace", "name": name, "description": description, "tools": []}
                namespaces[name] = group
                converted.append(group)
            if namespaces[name]["description"] != description:
                raise UserError(f"All tools in namespace '{name}' must share the same description.")
            namespaces[name]["tools"].append(param)
        converted += [_handoff_param(each) for each in handoffs]
        return ConvertedTools(tools=converted, includes=includes)


def _computer_type(model: str | None, tool_choice: Any) -> str:
    preview = "computer_use_preview"
    if model is None:
        return preview if tool_choice in (None, "auto", preview) else "computer"
    return preview if model.startswith("computer-use-preview") else "computer"


def _handoff_param(handoff: Any) -> dict[str, Any]:
    return {
        "name": handoff.tool_name,
        "parameters": handoff.input_json_schema,
        "strict": handoff.strict_json_schema,
        "type": "function",
        "description": handoff.tool_description,
    }


def _function_param(tool: FunctionTool) -> dict[str, Any]:
    extra = {
        "defer_loading": tool.defer_loading or None,
        "allowed_callers": tool.allowed_callers,
        "output_schema": tool.output_json_schema,
    }
    return {
        "name": tool.name,
        "parameters": tool.params_json_schema,
        "strict": tool.strict_json_schema,
        "type": "function",
        "description": tool.description,
        **{key: value for key, value in extra.items() if value is not None},
    }


def _tool_param(
    tool: Any, model: str | None, tool_choice: Any
) -> tuple[dict[str, Any], str | None]:
    """A tool, and what the answer has to include for it."""
    match tool:
        case FunctionTool():
            return _function_param(tool), None
        case hosted.WebSearchTool():
            return _web_search_param(tool)
        case hosted.FileSearchTool():
            most = tool.max_num_results
            if most is not None and (isinstance(most, bool) or not 0 <= most <= 50):
                raise UserError(
                    "FileSearchTool max_num_results must be zero, an integer between 1 and 50, "
                    "or None."
                )
            param = {"type": "file_search", "vector_store_ids": tool.vector_store_ids}
            extra: dict[str, Any] = {
                "max_num_results": most,
                "ranking_options": tool.ranking_options,
                "filters": tool.filters,
            }
            param |= {key: value for key, value in extra.items() if value}
            return param, "file_search_call.results" if tool.include_search_results else None
        case hosted.ComputerTool():
            return _computer_param(tool, _computer_type(model, tool_choice)), None
        case (
            hosted.CustomTool()
            | hosted.HostedMCPTool()
            | hosted.ImageGenerationTool()
            | hosted.CodeInterpreterTool()
        ):
            return dict(tool.tool_config), None
        case hosted.ApplyPatchTool():
            return _with_callers({"type": "apply_patch"}, tool), None
        case hosted.ShellTool():
            return _with_callers({"type": "shell", "environment": tool.environment}, tool), None
        case hosted.LocalShellTool():
            return {"type": "local_shell"}, None
        case hosted.ToolSearchTool():
            extra = {"description": tool.description, "execution": tool.execution}
            extra["parameters"] = tool.parameters
            known = {key: value for key, value in extra.items() if value is not None}
            return {"type": "tool_search", **known}, None
        case hosted.ProgrammaticToolCallingTool():
            return {"type": "programmatic_tool_calling"}, None
    raise UserError(f"Unknown tool type: {type(tool)}, tool")


def _with_callers(param: dict[str, Any], tool: Any) -> dict[str, Any]:
    return (
        param
        if tool.allowed_callers is None
        else {**param, "allowed_callers": tool.allowed_callers}
    )


def _web_search_param(tool: hosted.WebSearchTool) -> tuple[dict[str, Any], str | None]:
    filters = tool.filters
    param: dict[str, Any] = {
        "type": "web_search",
        "filters": filters.model_dump() if isinstance(filters, BaseModel) else filters,
        "user_location": tool.user_location,
        "search_context_size": tool.search_context_size,
    }
    for name in ("external_web_access", "search_content_types", "image_settings"):
        if getattr(tool, name) is not None:
            param[name] = getattr(tool, name)
    shows_images = "image" in (tool.search_content_types or ())
    return param, "web_search_call.results" if shows_images else None


def _computer_param(tool: hosted.ComputerTool[Any], kind: str) -> dict[str, Any]:
    if kind == "computer":
        return {"type": "computer"}
    computer = tool.computer
    if not isinstance(computer, (Computer, AsyncComputer)):
        raise UserError("the computer tool has no computer yet: call `resolve_computer` first")
    size = computer.dimensions
    if computer.environment is None or size is None:
        raise UserError("the preview computer tool needs `environment` and `dimensions`")
    place = {"environment": computer.environment, "display_width": size[0]}
    return {"type": kind, **place, "display_height": size[1]}


def _as_json(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump(exclude_unset=True)
    if isinstance(value, Mapping):
        return {key: _as_json(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_as_json(each) for each in value]
    return value


def input_list(input: Any) -> list[Any]:
    """The input as the API takes it: without what only this layer or another provider adds."""
    if isinstance(input, str):
        return [{"content": input, "role": "user"}]
    items = []
    for each in input:
        item = _as_json(each)
        if isinstance(item, dict):
            if item.get("type") == "reasoning" and item.get("provider_data"):
                continue
            unknown = {"provider_data"} | ({"id"} if item.get("id") == FAKE_RESPONSES_ID else set())
            item = {key: value for key, value in item.items() if key not in unknown}
        items.append(item)
    return items


def usage_of(response: Any) -> Usage:
    """The token counts of a response."""
    usage = response.usage
    if usage is None:
        return Usage()
    return Usage(
        requests=1,
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        total_tokens=usage.total_tokens,
        input_tokens_details=usage.input_tokens_details or input_details(),
        output_tokens_details=usage.output_tokens_details,
    )


def retry_advice(request: ModelRetryAdviceRequest) -> ModelRetryAdvice | None:
    """What the `openai` package's own errors say about repeating a request."""
    facts = normalized(request.error)
    headers = getattr(getattr(request.error, "response", None), "headers", None) or {}
    said = headers.get("x-should-retry")
    passing = facts.status_code in (408, 409, 429) or (facts.status_code or 0) >= 500
    suggested: bool | None = said == "true" if said in ("true", "false") else None
    if suggested is None and (passing or facts.is_network_error or facts.is_timeout):
        suggested = True
    if suggested is None and facts.retry_after is None:
        return None
    return ModelRetryAdvice(suggested=suggested, retry_after=facts.retry_after, normalized=facts)


class OpenAIResponsesModel(Model):
    """A model that is called through OpenAI's Responses API."""

    def __init__(
        self, model: str, openai_client: AsyncOpenAI, *, model_is_explicit: bool = True
    ) -> None:
        self.model = model
        self._model_is_explicit = model_is_explicit
        self._client = openai_client

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
        body = self._body(
            system_instructions,
            input,
            model_settings,
            tools,
            output_schema,
            handoffs,
            previous_response_id,
            conversation_id,
            prompt,
        )
        with response_span(disabled=tracing.is_disabled()) as span:
            response = await self._create(body)
            if tracing.include_data():
                span.span_data.response, span.span_data.input = response, input
        return self._answer(response, model_settings)

    def _answer(self, response: Response, settings: Any) -> ModelResponse:
        raw = None
        if settings.preserve_raw_usage and response.usage is not None:
            raw = response.usage.model_dump()
        return ModelResponse(
            output=list(response.output),
            usage=usage_of(response),
            response_id=response.id,
            request_id=getattr(response, "_request_id", None),
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
        """The events of the answer; the last event contains the whole answer."""
        body = self._body(
            system_instructions,
            input,
            model_settings,
            tools,
            output_schema,
            handoffs,
            previous_response_id,
            conversation_id,
            prompt,
        )
        with response_span(disabled=tracing.is_disabled()) as span:
            async for event in self._stream(body):
                if event.type == "response.completed" and tracing.include_data():
                    span.span_data.response, span.span_data.input = event.response, input
                yield event

    async def _create(self, body: dict[str, Any]) -> Response:
        response: Response = await self._client.responses.create(**body)
        return response

    async def _stream(self, body: dict[str, Any]) -> AsyncIterator[Any]:
        stream = await self._client.responses.create(**body, stream=True)
        try:
            async for event in stream:
                yield event
        finally:
            close = getattr(stream, "close", None)
            if close is not None:
                with suppress(Exception):
                    await close()

    def _body(
        self,
        instructions: str | None,
        input: str | list[Any],
        settings: Any,
        tools: list[Any],
        output_schema: Any,
        handoffs: list[Any],
        previous_response_id: str | None,
        conversation_id: str | None,
        prompt: Any,
    ) -> dict[str, Any]:
        model = None if prompt is not None and not self._model_is_explicit else self.model
        computer_model = Converter.resolve_computer_tool_model(request_model=model, tools=tools)
        choice = Converter.convert_tool_choice(
            settings.tool_choice, tools=tools, handoffs=handoffs, model=computer_model
        )
        converted = Converter.convert_tools(
            tools,
            handoffs,
            allow_opaque_tool_search_surface=prompt is not None,
            model=computer_model,
            tool_choice=settings.tool_choice,
        )
        include = dict.fromkeys([*converted.includes, *(settings.response_include or ())])
        extra = dict(settings.extra_args or {})
        if settings.top_logprobs is not None:
            include["message.output_text.logprobs"] = None
            extra["top_logprobs"] = settings.top_logprobs
        text = Converter.get_response_format(output_schema)
        if settings.verbosity is not None:
            text = {**({} if isinstance(text, Omit) else text), "verbosity": settings.verbosity}
        from_prompt = prompt is not None and not converted.tools
        body = {
            "previous_response_id": previous_response_id,
            "conversation": conversation_id,
            "instructions": instructions,
            "model": model,
            "input": input_list(input),
            "include": list(include),
            "tools": None if from_prompt else converted.tools,
            "prompt": prompt,
            "temperature": settings.temperature,
            "top_p": settings.top_p,
            "truncation": settings.truncation,
            "max_output_tokens": settings.max_tokens,
            "tool_choice": None if from_prompt and isinstance(choice, dict) else choice,
            "parallel_tool_calls": settings.parallel_tool_calls
            if prompt is not None or converted.tools
            else None,
            "text": text,
            "store": settings.store,
            "prompt_cache_retention": settings.prompt_cache_retention,
            "prompt_cache_options": settings.prompt_cache_options,
            "reasoning": settings.reasoning,
            "metadata": settings.metadata,
            "context_management": settings.context_management,
        }
        return _with_extras(body, extra, settings)


def _with_extras(body: dict[str, Any], extra: dict[str, Any], settings: Any) -> dict[str, Any]:
    """The request's fields that are set, with what the settings add to it."""
    body = {key: value for key, value in body.items() if not is_left_out(value)}
    if twice := sorted(set(body) & set(extra)):
        names = ", ".join(repr(each) for each in twice)
        plural = "s" if len(twice) > 1 else ""
        raise TypeError(
            f"responses.create() got multiple values for keyword argument{plural} {names}"
        )
    given = {
        "extra_headers": {"User-Agent": "Agents/Python 0.24.0", **(settings.extra_headers or {})},
        "extra_query": settings.extra_query,
        "extra_body": settings.extra_body,
    }
    return {**body, **given, **extra}


def is_left_out(value: Any) -> bool:
    return value is None or isinstance(value, (Omit, NotGiven))


class OpenAIResponsesWebSocketOptions(TypedDict):
    """Settings of the connection."""

    ping_interval: NotRequired[float | None]
    ping_timeout: NotRequired[float | None]
    max_size: NotRequired[int | None]


class ResponsesWebSocketError(RuntimeError):
    """The server answered a request over a WebSocket with an error."""

    def __init__(self, payload: Mapping[str, Any]) -> None:
        error = payload.get("error") or {}
        self.payload = dict(payload)
        self.event_type = str(payload.get("type"))
        self.code = error.get("code")
        self.error_type = error.get("type")
        self.request_id = payload.get("request_id")
        self.error_message = error.get("message")
        super().__init__(f"Responses websocket error: {json.dumps(self.payload, default=str)}")


_events: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)


class OpenAIResponsesWSModel(OpenAIResponsesModel):
    """Like `OpenAIResponsesModel`, over one WebSocket that stays open between requests."""

    def __init__(
        self,
        model: str,
        openai_client: AsyncOpenAI,
        *,
        model_is_explicit: bool = True,
        websocket_options: OpenAIResponsesWebSocketOptions | None = None,
    ) -> None:
        super().__init__(model, openai_client, model_is_explicit=model_is_explicit)
        self._options: dict[str, Any] = dict(websocket_options or {})
        self._socket: Any = None
        self._turn = asyncio.Lock()

    async def _connected(self) -> Any:
        if self._socket is None:
            from websockets.asyncio.client import connect

            base = self._client.websocket_base_url or self._client.base_url
            address = str(base).replace("http", "ws", 1).rstrip("/") + "/responses"
            headers = {"Authorization": f"Bearer {self._client.api_key}"}
            self._socket = await connect(address, additional_headers=headers, **self._options)
        return self._socket

    async def close(self) -> None:
        """Close the connection."""
        if self._socket is not None:
            socket, self._socket = self._socket, None
            await socket.close()

    async def _create(self, body: dict[str, Any]) -> Response:
        async for event in self._stream(body):
            if isinstance(event, ResponseCompletedEvent):
                return event.response
        raise ResponsesWebSocketError({"type": "error", "error": {"message": "no answer"}})

    async def _stream(self, body: dict[str, Any]) -> AsyncIterator[Any]:
        request = {key: value for key, value in body.items() if not key.startswith("extra_")}
        request = {"type": "response.create", **request, **(body["extra_body"] or {})}
        async with self._turn:
            socket = await self._connected()
            is_done = False
            try:
                await socket.send(json.dumps(_as_json(request)))
                async for frame in socket:
                    payload = json.loads(frame)
                    if payload.get("type") in ("error", "response.error"):
                        raise ResponsesWebSocketError(payload)
                    kind = payload["type"]
                    is_done = kind in (
                        "response.completed",
                        "response.failed",
                        "response.incomplete",
                    )
                    yield _events.validate_python(payload)
                    if is_done:
                        return
            finally:
                if not is_done:
                    await self.close()
