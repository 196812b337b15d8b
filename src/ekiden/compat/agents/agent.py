"""`Agent` with the SDK's fields; a run makes Ekiden's own agents of it."""

from __future__ import annotations

import dataclasses
import inspect
import logging
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Generic, Literal, NotRequired, TypeAlias, get_origin

from pydantic import BaseModel, TypeAdapter, ValidationError
from typing_extensions import TypedDict

from ekiden.compat.agents.agent_output import AgentOutputSchemaBase
from ekiden.compat.agents.agent_tool_input import (
    AgentAsToolInput,
    build_structured_input_schema_info,
    resolve_agent_tool_input,
)
from ekiden.compat.agents.exceptions import ModelBehaviorError, UserError
from ekiden.compat.agents.items import ItemHelpers, MessageOutputItem, ToolCallOutputItem
from ekiden.compat.agents.lifecycle import AgentHooksBase
from ekiden.compat.agents.model_settings import ModelSettings, coerce_settings
from ekiden.compat.agents.models.default_models import get_default_model_settings
from ekiden.compat.agents.prompts import PromptUtil
from ekiden.compat.agents.run_config import get_default_agent_runner
from ekiden.compat.agents.strict_schema import ensure_strict_json_schema
from ekiden.compat.agents.tool import (
    FunctionTool,
    ToolOrigin,
    ToolOriginType,
    default_tool_error_function,
    handled,
    read_arguments,
)
from ekiden.compat.agents.tool_context import ToolContext
from ekiden.core.context import TContext

_log = logging.getLogger("openai.agents")


@dataclass
class ToolsToFinalOutputResult:
    """Whether the output of the tools is the run's answer."""

    is_final_output: bool
    final_output: Any = None


ToolsToFinalOutputFunction: TypeAlias = Callable[[Any, list[Any]], Any]


class AgentToolStreamEvent(TypedDict):
    """The argument of `on_stream` of an agent that is used as a tool."""

    event: Any
    agent: Any
    tool_call: Any


class StopAtTools(TypedDict):
    """Tools whose output is the run's answer."""

    stop_at_tool_names: list[str]


class MCPConfig(TypedDict):
    """Options for the conversion of MCP tools."""

    convert_schemas_to_strict: NotRequired[bool]
    failure_error_function: NotRequired[Any]
    include_server_in_tool_names: NotRequired[bool]


@dataclass(eq=False)
class AgentBase(Generic[TContext]):
    """Base class of all agents: name, tools and MCP servers."""

    name: str
    handoff_description: str | None = None
    tools: list[Any] = field(default_factory=list)
    mcp_servers: list[Any] = field(default_factory=list)
    mcp_config: MCPConfig = field(default_factory=lambda: MCPConfig())

    async def get_mcp_tools(self, run_context: Any) -> list[Any]:
        """The tools of the agent's MCP servers."""
        if not self.mcp_servers:
            return []
        util = import_module("ekiden.compat.agents.mcp").MCPUtil
        config = self.mcp_config
        names: set[str] | None = None
        if config.get("include_server_in_tool_names", False):
            names = {each.name for each in self.tools if isinstance(each, FunctionTool)}
        found: list[Any] = await util.get_all_function_tools(
            self.mcp_servers,
            config.get("convert_schemas_to_strict", False),
            run_context,
            self,
            failure_error_function=config.get(
                "failure_error_function", default_tool_error_function
            ),
            include_server_in_tool_names=config.get("include_server_in_tool_names", False),
            reserved_tool_names=names,
        )
        return found

    async def get_all_tools(self, run_context: Any) -> list[Any]:
        """The enabled tools; tools of MCP servers come first."""
        own = list(self.tools)
        offered = await self.get_mcp_tools(run_context)
        return [*offered, *[each for each in own if await is_enabled(each, run_context, self)]]


async def is_enabled(offer: Any, context: Any, agent: Any) -> bool:
    """Whether a tool or a handoff is on offer now."""
    wanted = getattr(offer, "is_enabled", True)
    if not callable(wanted):
        return bool(wanted)
    wanted = wanted(context, agent)
    return bool(await wanted if inspect.isawaitable(wanted) else wanted)


@dataclass(eq=False)
class Agent(AgentBase[TContext]):
    """An agent with the fields of the OpenAI Agents SDK."""

    instructions: str | Callable[[Any, Any], Any] | None = None
    prompt: Any = None
    handoffs: list[Any] = field(default_factory=list)
    model: Any = None
    """A name such as ``gpt-5.2`` (OpenAI's) or ``anthropic:claude-…``, or a model object."""
    model_settings: ModelSettings = field(default_factory=get_default_model_settings)
    input_guardrails: list[Any] = field(default_factory=list)
    output_guardrails: list[Any] = field(default_factory=list)
    output_type: Any = None
    hooks: Any = None
    tool_use_behavior: (
        Literal["run_llm_again", "stop_on_first_tool"] | StopAtTools | ToolsToFinalOutputFunction
    ) = "run_llm_again"
    reset_tool_choice: bool = True

    def __post_init__(self) -> None:
        for name, kinds, wanted in _KINDS:
            value = getattr(self, name)
            if not isinstance(value, kinds):
                raise TypeError(f"Agent {name} must be {wanted}, got {type(value).__name__}")
        if self.instructions is not None and not (
            isinstance(self.instructions, str) or callable(self.instructions)
        ):
            raise self._wrong("instructions", "a string, callable, or None")
        if self.prompt is not None and not (callable(self.prompt) or hasattr(self.prompt, "get")):
            raise self._wrong("prompt", "a Prompt, DynamicPromptFunction, or None")
        if not (
            self.model is None
            or isinstance(self.model, str)
            or hasattr(self.model, "get_response")
            or hasattr(self.model, "respond")
        ):
            raise self._wrong("model", "a string, Model, or None")
        self.model_settings = coerce_settings(self.model_settings)
        if self.model is not None and self.model_settings == get_default_model_settings():
            self.model_settings = _settings_for(self.model)
        if self.output_type is not None and not (
            isinstance(self.output_type, type | AgentOutputSchemaBase)
            or get_origin(self.output_type) is not None
        ):
            raise self._wrong("output_type", "a type, AgentOutputSchemaBase, or None")
        if self.hooks is not None and not isinstance(self.hooks, AgentHooksBase):
            raise self._wrong("hooks", "an AgentHooks instance or None")
        behavior = self.tool_use_behavior
        if (
            behavior not in ("run_llm_again", "stop_on_first_tool")
            and not isinstance(behavior, dict)
            and not callable(behavior)
        ):
            raise self._wrong(
                "tool_use_behavior",
                "'run_llm_again', 'stop_on_first_tool', StopAtTools dict, or callable",
            )

    def _wrong(self, name: str, wanted: str) -> TypeError:
        found = type(getattr(self, name)).__name__
        return TypeError(f"Agent {name} must be {wanted}, got {found}")

    def clone(self, **kwargs: Any) -> Agent[TContext]:
        """A copy with some fields changed. Lists that you do not pass are shared."""
        if (
            "model" in kwargs
            and "model_settings" not in kwargs
            and self.model_settings == _settings_for(self.model)
        ):
            kwargs["model_settings"] = _settings_for(kwargs["model"])
        return dataclasses.replace(self, **kwargs)

    def as_tool(
        self,
        tool_name: str | None = None,
        tool_description: str | None = None,
        custom_output_extractor: Callable[[Any], Any] | None = None,
        is_enabled: bool | Callable[[Any, Any], Any] = True,
        on_stream: Callable[[Any], Any] | None = None,
        run_config: Any = None,
        max_turns: int | None = None,
        hooks: Any = None,
        previous_response_id: str | None = None,
        conversation_id: str | None = None,
        session: Any = None,
        failure_error_function: Any = default_tool_error_function,
        needs_approval: bool | Callable[..., Any] = False,
        parameters: type[Any] | None = None,
        input_builder: Any = None,
        include_input_schema: bool = False,
        on_stream_max_pending_events: int | None = 1024,
    ) -> FunctionTool:
        """Make this agent a tool of another agent. This agent answers the call, and the caller
        continues.

        This agent works in its own session, which is resumed after a crash. The stream of the
        calling run contains its events, each with its agent and depth.
        """
        return agent_as_tool(
            self,
            tool_name=tool_name,
            tool_description=tool_description,
            custom_output_extractor=custom_output_extractor,
            is_enabled=is_enabled,
            on_stream=on_stream,
            run_config=run_config,
            max_turns=max_turns,
            hooks=hooks,
            previous_response_id=previous_response_id,
            conversation_id=conversation_id,
            session=session,
            failure_error_function=failure_error_function,
            needs_approval=needs_approval,
            parameters=parameters,
            input_builder=input_builder,
            include_input_schema=include_input_schema,
            on_stream_max_pending_events=on_stream_max_pending_events,
        )

    async def get_system_prompt(self, run_context: Any) -> str | None:
        """The instructions as a text. If `instructions` is a function, it is called."""
        if not callable(self.instructions):
            return self.instructions
        names = list(inspect.signature(self.instructions).parameters)
        if len(names) != 2:
            raise TypeError(
                "'instructions' callable must accept exactly 2 arguments (context, agent), "
                f"but got {len(names)}: {names}"
            )
        given = self.instructions(run_context, self)
        text: str | None = await given if inspect.isawaitable(given) else given
        return text

    async def get_prompt(self, run_context: Any) -> Any:
        """The prompt that OpenAI stores for the agent; `None` if the agent has no prompt."""
        return await PromptUtil.to_model_input(self.prompt, run_context, self)


_KINDS: tuple[tuple[str, Any, str], ...] = (
    ("name", str, "a string"),
    ("handoff_description", str | None, "a string or None"),
    ("tools", list, "a list"),
    ("mcp_servers", list, "a list"),
    ("mcp_config", dict, "a dict"),
    ("handoffs", list, "a list"),
    ("input_guardrails", list, "a list"),
    ("output_guardrails", list, "a list"),
    ("reset_tool_choice", bool, "a boolean"),
)


def _settings_for(model: Any) -> ModelSettings:
    if model is None:
        return get_default_model_settings()
    return get_default_model_settings(model) if isinstance(model, str) else ModelSettings()


# An agent as a tool of another one.

_NOT_WORD = re.compile(r"[^a-zA-Z0-9_]")
_DEFAULT_TURNS = 10


def agent_as_tool(agent: Any, **options: Any) -> FunctionTool:
    """See `Agent.as_tool`."""
    on_stream, pending = options["on_stream"], options["on_stream_max_pending_events"]
    if on_stream is not None and not callable(on_stream):
        raise UserError(
            "on_stream must be callable or None. Pass run configuration with run_config=... "
            "instead of as the fifth positional argument."
        )
    if pending is not None and pending <= 0:
        raise UserError("on_stream_max_pending_events must be a positive integer or None")
    parameters = options["parameters"]
    if parameters is not None and not (
        isinstance(parameters, type)
        and (dataclasses.is_dataclass(parameters) or issubclass(parameters, BaseModel))
    ):
        raise TypeError("Agent tool parameters must be a dataclass or Pydantic model type.")
    adapter: TypeAdapter[Any] = TypeAdapter(parameters or AgentAsToolInput)
    schema = ensure_strict_json_schema(adapter.json_schema())
    name = options["tool_name"] or _NOT_WORD.sub("_", agent.name).lower()
    call = _AgentCall(agent, name, adapter, schema, options)
    tool = FunctionTool(
        name=name,
        description=options["tool_description"] or "",
        params_json_schema=schema,
        on_invoke_tool=handled(call, name, options["failure_error_function"]),
        is_enabled=options["is_enabled"],
        needs_approval=options["needs_approval"],
        failure_error_function=options["failure_error_function"],
        agent=agent,
        origin=ToolOrigin(
            type=ToolOriginType.AGENT_AS_TOOL, agent_name=agent.name, agent_tool_name=name
        ),
    )
    return tool


class _AgentCall:
    """Runs the agent for one call of the tool."""

    def __init__(
        self, agent: Any, name: str, adapter: TypeAdapter[Any], schema: Any, options: dict[str, Any]
    ) -> None:
        self._agent = agent
        self._name = name
        self._adapter = adapter
        self._schema = schema
        self._options = options

    async def __call__(self, context: Any, arguments: str) -> Any:
        options = self._options
        name = context.tool_name if isinstance(context, ToolContext) else self._name
        try:
            parsed = self._adapter.validate_python(read_arguments(name, arguments))
        except ValidationError as exc:
            raise ModelBehaviorError(f"Invalid JSON input for tool {name}: {exc}") from exc
        params = self._adapter.dump_python(parsed, mode="json")
        is_structured = options["parameters"] is not None or options["input_builder"] is not None
        info = None
        if is_structured:
            info = build_structured_input_schema_info(
                self._schema, include_json_schema=options["include_input_schema"]
            )
        given = await resolve_agent_tool_input(
            params=params, schema_info=info, input_builder=options["input_builder"]
        )
        if not isinstance(given, str | list):
            raise ModelBehaviorError("Agent tool called with invalid input")
        result = await self._run(context, given, params if is_structured else None)
        extract = options["custom_output_extractor"]
        if extract is not None:
            extracted = extract(result)
            return await extracted if inspect.isawaitable(extracted) else extracted
        return _answer(result)

    async def _run(self, context: Any, given: Any, tool_input: Any) -> Any:
        options = self._options
        config = options["run_config"] or getattr(context, "run_config", None)
        within = context
        if isinstance(context, ToolContext):
            within = ToolContext(
                context.context,
                context.usage,
                context.tool_name,
                context.tool_call_id,
                context.tool_arguments,
                context.tool_call,
                agent=context.agent,
                run_config=config,
                tool_input=tool_input,
                decisions=context.decisions,
            )
        more = {
            "context": within,
            "run_config": config,
            "max_turns": options["max_turns"] or _DEFAULT_TURNS,
            "hooks": options["hooks"],
            "previous_response_id": options["previous_response_id"],
            "conversation_id": options["conversation_id"],
            "session": options["session"],
        }
        runner = get_default_agent_runner()
        nested = getattr(context, "nested", None)
        if nested is not None:
            return await nested(
                runner,
                self._agent,
                given,
                more,
                self._show,
                is_watched=options["on_stream"] is not None,
            )
        if options["on_stream"] is None:
            return await runner.run(self._agent, given, **more)
        streamed = runner.run_streamed(self._agent, given, **more)
        current = self._agent
        async for event in streamed.stream_events():
            current = getattr(event, "new_agent", current)
            await self._show(event, current, getattr(context, "tool_call", None))
        return streamed

    async def _show(self, event: Any, agent: Any, tool_call: Any) -> None:
        on_stream = self._options["on_stream"]
        if on_stream is None:
            return
        try:
            done = on_stream({"event": event, "agent": agent, "tool_call": tool_call})
            if inspect.isawaitable(done):
                await done
        except Exception as exc:
            _log.error("on_stream of agent %r failed", self._agent.name, exc_info=exc)


def _answer(result: Any) -> Any:
    """The final output; of a run that has none, the last thing that was said."""
    output = result.final_output
    if output not in (None, "") or result.output_guardrail_results:
        return output
    for item in reversed(result.new_items):
        if isinstance(item, MessageOutputItem) and (text := ItemHelpers.text_message_output(item)):
            return text
        if isinstance(item, ToolCallOutputItem) and isinstance(item.output, str) and item.output:
            return item.output
    return output
