"""Codex as a tool of an agent."""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import re
from collections.abc import AsyncGenerator, Callable, Mapping, MutableMapping
from contextlib import aclosing
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any, Literal, NotRequired, TypeAlias, TypedDict

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from ekiden.compat.agents.exceptions import ModelBehaviorError, UserError
from ekiden.compat.agents.extensions.experimental.codex.codex import Codex
from ekiden.compat.agents.extensions.experimental.codex.codex_options import (
    CodexOptions,
    coerce_codex_options,
    coerced,
)
from ekiden.compat.agents.extensions.experimental.codex.events import (
    ItemCompletedEvent,
    ItemStartedEvent,
    ItemUpdatedEvent,
    ThreadEvent,
    TurnCompletedEvent,
    Usage,
    coerce_thread_event,
)
from ekiden.compat.agents.extensions.experimental.codex.items import (
    CommandExecutionItem,
    Payload,
    is_agent_message_item,
)
from ekiden.compat.agents.extensions.experimental.codex.thread import Thread, UserInput, failure_of
from ekiden.compat.agents.extensions.experimental.codex.thread_options import (
    SandboxMode,
    ThreadOptions,
    coerce_thread_options,
)
from ekiden.compat.agents.extensions.experimental.codex.turn_options import (
    TurnOptions,
    coerce_turn_options,
)
from ekiden.compat.agents.logger import log_model_and_tool_action_error, logger
from ekiden.compat.agents.models.openai_provider import defaults
from ekiden.compat.agents.strict_schema import ensure_strict_json_schema
from ekiden.compat.agents.tool import (
    FunctionTool,
    ToolErrorFunction,
    default_tool_error_function,
    handled,
    read_arguments,
)
from ekiden.compat.agents.tool_context import ToolContext
from ekiden.compat.agents.tracing import SpanError, custom_span
from ekiden.compat.agents.usage import Usage as AgentsUsage, input_details

DEFAULT_CODEX_TOOL_NAME = "codex"
CODEX_TOOL_NAME_PREFIX = "codex_"
DEFAULT_RUN_CONTEXT_THREAD_ID_KEY = "codex_thread_id"
JSON_PRIMITIVE_TYPES = {"string", "number", "integer", "boolean"}
SPAN_TRIM_KEYS = (
    "arguments", "command", "output", "result", "error", "text", "changes", "items",
)  # fmt: skip
"""Fields of a span that are shortened if it is too long."""
_NONE_COUNTS = ("span_data_max_chars", "failure_error_function")
"""Options that `None` changes; of the others it leaves the default."""


class CodexToolInputItem(BaseModel):
    """A text or the path of a picture."""

    model_config = ConfigDict(extra="forbid")

    type: Literal["text", "local_image"]
    text: str | None = None
    path: str | None = None

    @model_validator(mode="after")
    def _has_its_field(self) -> CodexToolInputItem:
        self.text, self.path = ((each or "").strip() or None for each in (self.text, self.path))
        wanted, other = ("text", "path") if self.type == "text" else ("path", "text")
        if getattr(self, wanted) is None or getattr(self, other) is not None:
            raise ValueError(f"an input of type {self.type} has {wanted}, and no {other}")
        return self


class CodexToolRunContextParameters(BaseModel):
    """Arguments of the tool if the thread's id is in the run context."""

    model_config = ConfigDict(extra="forbid")

    inputs: list[CodexToolInputItem] = Field(
        min_length=1, description="The task for Codex: texts and pictures, at least one."
    )


class CodexToolParameters(CodexToolRunContextParameters):
    """Arguments of the tool."""

    thread_id: str | None = Field(
        default=None, description="The Codex thread to continue; leave it out for a new one."
    )

    @model_validator(mode="after")
    def _has_an_id(self) -> CodexToolParameters:
        if self.thread_id is not None:
            self.thread_id = self.thread_id.strip()
            if not self.thread_id:
                raise ValueError("thread_id must not be empty")
        return self


class OutputSchemaPrimitive(TypedDict, total=False):
    """A plain value of the answer."""

    type: Literal["string", "number", "integer", "boolean"]
    description: NotRequired[str]
    enum: NotRequired[list[str]]


class OutputSchemaArray(TypedDict, total=False):
    """A list of plain values."""

    type: Literal["array"]
    description: NotRequired[str]
    items: OutputSchemaPrimitive


OutputSchemaField: TypeAlias = OutputSchemaPrimitive | OutputSchemaArray


class OutputSchemaPropertyDescriptor(TypedDict, total=False):
    """A field of the answer."""

    name: str
    description: NotRequired[str]
    schema: OutputSchemaField


class OutputSchemaDescriptor(TypedDict, total=False):
    """Describes the answer as a list of fields, instead of a JSON Schema."""

    title: NotRequired[str]
    description: NotRequired[str]
    properties: list[OutputSchemaPropertyDescriptor]
    required: NotRequired[list[str]]


class CodexToolCallArguments(TypedDict):
    """The arguments of a call."""

    inputs: list[UserInput] | None
    thread_id: str | None


@dataclass(frozen=True)
class CodexToolResult:
    """The result of the tool; the model gets it as JSON."""

    thread_id: str | None
    response: str
    usage: Usage | None

    def as_dict(self) -> dict[str, Any]:
        """The result as JSON."""
        usage = self.usage.as_dict() if isinstance(self.usage, Usage) else self.usage
        return {"thread_id": self.thread_id, "response": self.response, "usage": usage}

    def __str__(self) -> str:
        return json.dumps(self.as_dict())


@dataclass(frozen=True)
class CodexToolStreamEvent(Payload):
    """An event of Codex, with the tool call that it belongs to."""

    event: ThreadEvent
    thread: Thread
    tool_call: Any


@dataclass
class CodexToolOptions:
    """Options of `codex_tool`."""

    name: str | None = None
    """``codex``, or a name that starts with ``codex_``."""
    description: str | None = None
    parameters: type[BaseModel] | None = None
    """Other parameters of the tool; they must include the field `inputs`."""
    output_schema: OutputSchemaDescriptor | Mapping[str, Any] | None = None
    codex: Codex | None = None
    codex_options: CodexOptions | Mapping[str, Any] | None = None
    default_thread_options: ThreadOptions | Mapping[str, Any] | None = None
    thread_id: str | None = None
    sandbox_mode: SandboxMode | None = None
    working_directory: str | None = None
    skip_git_repo_check: bool | None = None
    default_turn_options: TurnOptions | Mapping[str, Any] | None = None
    span_data_max_chars: int | None = 8192
    persist_session: bool = False
    """Whether all calls continue the same thread."""
    on_stream: Callable[[CodexToolStreamEvent], Any] | None = None
    is_enabled: bool | Callable[[Any, Any], Any] = True
    failure_error_function: ToolErrorFunction | None = default_tool_error_function
    use_run_context_thread_id: bool = False
    """Whether the id of the thread is read from the run context and stored there."""
    run_context_thread_id_key: str | None = None


def codex_tool(
    options: CodexToolOptions | Mapping[str, Any] | None = None, **given: Any
) -> FunctionTool:
    """A tool that lets Codex work on a task. The keyword arguments are the fields of
    `CodexToolOptions`.

    Keyword arguments override fields of `options`. Raises `UserError` for unknown options, for an
    invalid name, and for an output schema that is not an object.
    """
    kept = {key: value for key, value in given.items() if value is not None or key in _NONE_COUNTS}
    coerced(CodexToolOptions, kept)  # Refuses unknown names.
    chosen = replace(coerced(CodexToolOptions, options) or CodexToolOptions(), **kept)
    tool = _CodexTool(chosen)
    return FunctionTool(
        name=tool.name,
        description=chosen.description or "Let Codex work on a task in the current workspace.",
        params_json_schema=ensure_strict_json_schema(tool.parameters.model_json_schema()),
        on_invoke_tool=handled(tool.call, tool.name, chosen.failure_error_function),
        is_enabled=chosen.is_enabled,
        failure_error_function=chosen.failure_error_function,
    )


class _CodexTool:
    """A tool's options, and the thread that its calls share."""

    def __init__(self, options: CodexToolOptions) -> None:
        self.options = options
        self.name = _name(options.name)
        self.key = _context_key(self.name, options)
        self.parameters: type[BaseModel] = options.parameters or (
            CodexToolRunContextParameters
            if options.use_run_context_thread_id
            else CodexToolParameters
        )
        self._codex = options.codex
        self._codex_options = _with_key(coerce_codex_options(options.codex_options))
        over = ("sandbox_mode", "working_directory", "skip_git_repo_check")
        changes = {name: getattr(options, name) for name in over}
        self._thread_options = replace(
            coerce_thread_options(options.default_thread_options) or ThreadOptions(),
            **{name: value for name, value in changes.items() if value not in (None, "")},
        )
        turn = coerce_turn_options(options.default_turn_options) or TurnOptions()
        schema = _output_schema(options.output_schema)
        self._turn_options = turn if schema is None else replace(turn, output_schema=schema)
        self._shared: Thread | None = None

    async def call(self, ctx: ToolContext[Any], arguments: str) -> CodexToolResult:
        """Run one turn of Codex."""
        asked = self._read(arguments)
        uses_context = self.options.use_run_context_thread_id
        if uses_context:
            _check_writable(ctx.context, self.key)
        thread = self._thread(self._thread_id(asked, ctx.context))
        streamed = await thread.run_streamed(asked["inputs"] or "", self._turn_options)
        try:
            response, usage = await _followed(streamed.events, ctx, thread, self.options)
        finally:
            if uses_context and thread.id is not None:
                _store(ctx.context, self.key, thread.id)
        if usage is not None:
            ctx.usage.add(
                AgentsUsage(
                    requests=1,
                    input_tokens=usage.input_tokens,
                    input_tokens_details=input_details(usage.cached_input_tokens),
                    output_tokens=usage.output_tokens,
                    total_tokens=usage.input_tokens + usage.output_tokens,
                )
            )
        return CodexToolResult(thread_id=thread.id, response=response, usage=usage)

    def _read(self, arguments: str) -> CodexToolCallArguments:
        try:
            parsed: Any = self.parameters.model_validate(read_arguments(self.name, arguments))
        except ValidationError as exc:
            raise ModelBehaviorError(f"Invalid JSON input for tool {self.name}: {exc}") from exc
        inputs = getattr(parsed, "inputs", None)
        if inputs is None:
            raise UserError(f"the parameters of tool {self.name!r} need a field `inputs`")
        parts: list[Any] = [
            {"type": "text", "text": each.text or ""}
            if each.type == "text"
            else {"type": "local_image", "path": each.path or ""}
            for each in inputs
        ]
        return {"inputs": parts or None, "thread_id": getattr(parsed, "thread_id", None)}

    def _thread_id(self, asked: CodexToolCallArguments, context: Any) -> str | None:
        found = asked["thread_id"]
        if not found and self.options.use_run_context_thread_id:
            is_mapping = isinstance(context, Mapping)
            found = context.get(self.key) if is_mapping else getattr(context, self.key, None)
        if found is not None and not isinstance(found, str):
            raise UserError(f"the Codex thread id in {self.key!r} must be a text")
        return (found or "").strip() or self.options.thread_id

    def _thread(self, thread_id: str | None) -> Thread:
        shared = self._shared
        if shared is not None:
            if thread_id and shared.id and shared.id != thread_id:
                raise UserError(
                    f"tool {self.name!r} has persist_session=True and continues the thread "
                    f"{shared.id}, not {thread_id}"
                )
            return shared
        self._codex = self._codex or Codex(self._codex_options)
        thread = (
            self._codex.resume_thread(thread_id, self._thread_options)
            if thread_id
            else self._codex.start_thread(self._thread_options)
        )
        if self.options.persist_session:
            self._shared = thread
        return thread


def _name(given: str | None) -> str:
    name = DEFAULT_CODEX_TOOL_NAME if given is None else str(given).strip()
    if name != DEFAULT_CODEX_TOOL_NAME and not name.startswith(CODEX_TOOL_NAME_PREFIX):
        raise UserError(
            f"a Codex tool is called {DEFAULT_CODEX_TOOL_NAME!r}, or starts with "
            f"{CODEX_TOOL_NAME_PREFIX!r}, unlike {given!r}"
        )
    return name


def _context_key(name: str, options: CodexToolOptions) -> str:
    """The field of the run context that keeps the thread's id: one for each tool."""
    given = options.run_context_thread_id_key
    if given is not None:
        if not isinstance(given, str) or not given.strip():
            raise UserError("run_context_thread_id_key must be a text that is not empty")
        return given.strip()
    suffix = name.removeprefix(DEFAULT_CODEX_TOOL_NAME)
    if options.use_run_context_thread_id and not re.fullmatch(r"|_\w+", suffix, re.ASCII):
        raise UserError(
            f"no field of the run context can be called after tool {name!r}: use letters, digits "
            "and underscores, or set run_context_thread_id_key"
        )
    return DEFAULT_RUN_CONTEXT_THREAD_ID_KEY + suffix


def _with_key(options: CodexOptions | None) -> CodexOptions:
    options = options or CodexOptions()
    if options.api_key:
        return options
    places = (options.env or {}, os.environ)
    keys = [place.get(name) for place in places for name in ("CODEX_API_KEY", "OPENAI_API_KEY")]
    return replace(options, api_key=next(filter(None, [*keys, defaults.key]), None))


def _output_schema(given: Mapping[str, Any] | None) -> dict[str, Any] | None:
    if given is None:
        return None
    if not isinstance(given, Mapping) or given.get("type", "object") != "object":
        raise UserError("output_schema must be a JSON Schema of an object, or a list of fields")
    if not isinstance(given.get("properties"), list):
        return ensure_strict_json_schema(deepcopy(dict(given)))
    described: dict[str, Any] = {}
    for each in given["properties"]:
        name = each.get("name") if isinstance(each, Mapping) else None
        if not isinstance(name, str) or not name.strip() or name in described:
            raise UserError(f"fields of output_schema need names of their own, unlike {name!r}")
        described[name] = _field_schema(name, each.get("schema"))
        if each.get("description"):
            described[name]["description"] = each["description"]
    required = given.get("required") or []
    if not described or not isinstance(required, list) or not set(required) <= set(described):
        raise UserError("`required` of output_schema names fields of its `properties`")
    schema = {
        "type": "object",
        "additionalProperties": False,
        "properties": described,
        "required": list(required),
    }
    more = {key: given[key] for key in ("title", "description") if given.get(key)}
    return {**schema, **more}


def _field_schema(name: str, given: Any) -> dict[str, Any]:
    kind = given.get("type") if isinstance(given, Mapping) else None
    keys = ("description", "items") if kind == "array" else ("description", "enum")
    if kind != "array" and kind not in JSON_PRIMITIVE_TYPES:
        raise UserError(f"field {name!r} of output_schema is a plain value or a list of them")
    schema = {"type": kind, **{key: given[key] for key in keys if given.get(key)}}
    if kind == "array":
        schema["items"] = _field_schema(name, given.get("items"))
    return schema


def _check_writable(context: Any, key: str) -> None:
    """`UserError` unless the thread's id can be stored in the run context."""
    if isinstance(context, Mapping):
        is_writable = isinstance(context, MutableMapping)
    elif isinstance(context, BaseModel):
        is_writable = not context.model_config.get("frozen")
    else:
        made = getattr(type(context), "__dataclass_params__", None)
        has_place = hasattr(context, "__dict__") or hasattr(type(context), key)
        is_writable = has_place and not getattr(made, "frozen", False)
    if not is_writable:
        raise UserError(
            f"use_run_context_thread_id=True stores the thread's id in {key!r} of the run context, "
            f"which {type(context).__name__} cannot keep: pass context={{}} or an object with it"
        )


def _store(context: Any, key: str, thread_id: str) -> None:
    if isinstance(context, MutableMapping):
        context[key] = thread_id
        return
    try:
        setattr(context, key, thread_id)
    except ValueError:  # A Pydantic model without this field.
        vars(context)[key] = thread_id


async def _followed(
    events: AsyncGenerator[ThreadEvent, None],
    ctx: ToolContext[Any],
    thread: Thread,
    options: CodexToolOptions,
) -> tuple[str, Usage | None]:
    """Read the turn to its end: the answer, and the token counts.

    `on_stream` is called in order, beside the reading, so that it does not hold Codex up.
    """
    told: asyncio.Queue[CodexToolStreamEvent | None] = asyncio.Queue()
    spans = _CommandSpans(ctx.run_config, options.span_data_max_chars)
    answer, usage = "", None

    async def follow() -> None:
        nonlocal answer, usage
        try:
            async with aclosing(events) as stream:
                async for each in stream:
                    event = coerce_thread_event(each)
                    told.put_nowait(CodexToolStreamEvent(event, thread, ctx.tool_call))
                    spans.follow(event)
                    if isinstance(event, TurnCompletedEvent):
                        usage = event.usage
                    elif isinstance(event, ItemCompletedEvent):
                        answer = event.item.text if is_agent_message_item(event.item) else answer
                    elif (failure := failure_of(event)) is not None:
                        raise UserError(failure)
        finally:
            spans.close()
            told.put_nowait(None)

    async def tell() -> None:
        while (event := await told.get()) is not None:
            if options.on_stream is None:
                continue
            try:
                done = options.on_stream(event)
                if inspect.isawaitable(done):
                    await done
            except Exception as exc:
                log_model_and_tool_action_error(logger, "on_stream of a Codex tool failed", exc)

    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(follow())
            group.create_task(tell())
    except BaseExceptionGroup as failures:
        raise failures.exceptions[0] from None
    return answer or "Codex finished the task without an answer.", usage


class _CommandSpans:
    """A span for each command that Codex runs."""

    def __init__(self, run_config: Any, most: int | None) -> None:
        self._is_on = not getattr(run_config, "tracing_disabled", False)
        self._shows = getattr(run_config, "trace_include_sensitive_data", True)
        self._most = most
        self._open: dict[str, Any] = {}

    def follow(self, event: ThreadEvent) -> None:
        """Start, update or finish the span of the event's command."""
        if not self._is_on or not isinstance(
            event, ItemStartedEvent | ItemUpdatedEvent | ItemCompletedEvent
        ):
            return
        item = event.item
        if not isinstance(item, CommandExecutionItem):
            return
        data = self._data(item)
        if isinstance(event, ItemStartedEvent):
            self._open[item.id] = custom_span(name="Codex command execution", data=data)
            self._open[item.id].start()
        elif (span := self._open.get(item.id)) is not None:
            span.span_data.data.update(data)
            if isinstance(event, ItemCompletedEvent):
                if item.status == "failed":
                    error = {key: data[key] for key in data if key in ("exit_code", "output")}
                    span.set_error(SpanError(message="The command failed.", data=error))
                self._open.pop(item.id).finish()

    def close(self) -> None:
        """Finish the spans of commands that have no end."""
        for span in self._open.values():
            span.finish()
        self._open.clear()

    def _data(self, item: CommandExecutionItem) -> dict[str, Any]:
        data: dict[str, Any] = {"status": item.status, "exit_code": item.exit_code}
        if self._shows:
            data["command"] = item.command
            if item.aggregated_output:
                data["output"] = item.aggregated_output
        return _fitted(data, self._most)


def _fitted(data: dict[str, Any], most: int | None) -> dict[str, Any]:
    """The data with its longest texts shortened, so that its JSON has `most` characters."""
    while most is not None and (over := len(json.dumps(data)) - most) > 0:
        texts = [key for key in SPAN_TRIM_KEYS if data.get(key)]
        if not texts:
            return data if most > 0 else {}
        longest = max(texts, key=lambda key: len(data[key]))
        data[longest] = data[longest][: max(0, len(data[longest]) - over - 1)]
        data[longest] += "…" if data[longest] else ""
        if len(data[longest]) <= 1:
            del data[longest]
    return data
