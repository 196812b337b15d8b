"""Tools: functions as tools, with the SDK's fields."""

from __future__ import annotations

import asyncio
import copy
import inspect
import json
import math
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal, TypeAlias, get_origin, get_type_hints, overload

from pydantic import TypeAdapter, ValidationError

from ekiden.compat.agents.exceptions import (
    AgentsException,
    ModelBehaviorError,
    ToolTimeoutError,
    UserError,
)
from ekiden.compat.agents.function_schema import DocstringStyle, function_schema
from ekiden.compat.agents.hosted_tools import (
    ApplyPatchApprovalFunction as ApplyPatchApprovalFunction,
    ApplyPatchOnApprovalFunction as ApplyPatchOnApprovalFunction,
    ApplyPatchOnApprovalFunctionResult as ApplyPatchOnApprovalFunctionResult,
    ApplyPatchTool as ApplyPatchTool,
    ApplyPatchToolCustomDataContext as ApplyPatchToolCustomDataContext,
    ApplyPatchToolCustomDataExtractor as ApplyPatchToolCustomDataExtractor,
    CodeInterpreterTool as CodeInterpreterTool,
    ComputerConfig as ComputerConfig,
    ComputerCreate as ComputerCreate,
    ComputerDispose as ComputerDispose,
    ComputerLike as ComputerLike,
    ComputerProvider as ComputerProvider,
    ComputerTool as ComputerTool,
    ComputerToolCustomDataContext as ComputerToolCustomDataContext,
    ComputerToolCustomDataExtractor as ComputerToolCustomDataExtractor,
    ComputerToolSafetyCheckData as ComputerToolSafetyCheckData,
    CustomTool as CustomTool,
    CustomToolApprovalFunction as CustomToolApprovalFunction,
    CustomToolCustomDataContext as CustomToolCustomDataContext,
    CustomToolCustomDataExtractor as CustomToolCustomDataExtractor,
    CustomToolExecutor as CustomToolExecutor,
    CustomToolOnApprovalFunction as CustomToolOnApprovalFunction,
    CustomToolOnApprovalFunctionResult as CustomToolOnApprovalFunctionResult,
    FileSearchTool as FileSearchTool,
    HostedMCPTool as HostedMCPTool,
    ImageGenerationTool as ImageGenerationTool,
    ImageGenerationToolConfig as ImageGenerationToolConfig,
    LocalShellCommandRequest as LocalShellCommandRequest,
    LocalShellExecutor as LocalShellExecutor,
    LocalShellTool as LocalShellTool,
    MCPToolApprovalFunction as MCPToolApprovalFunction,
    MCPToolApprovalFunctionResult as MCPToolApprovalFunctionResult,
    MCPToolApprovalRequest as MCPToolApprovalRequest,
    ProgrammaticToolCallingTool as ProgrammaticToolCallingTool,
    ShellActionRequest as ShellActionRequest,
    ShellApprovalFunction as ShellApprovalFunction,
    ShellCallData as ShellCallData,
    ShellCallOutcome as ShellCallOutcome,
    ShellCommandOutput as ShellCommandOutput,
    ShellCommandRequest as ShellCommandRequest,
    ShellExecutor as ShellExecutor,
    ShellOnApprovalFunction as ShellOnApprovalFunction,
    ShellOnApprovalFunctionResult as ShellOnApprovalFunctionResult,
    ShellResult as ShellResult,
    ShellTool as ShellTool,
    ShellToolContainerAutoEnvironment as ShellToolContainerAutoEnvironment,
    ShellToolContainerNetworkPolicy as ShellToolContainerNetworkPolicy,
    ShellToolContainerNetworkPolicyAllowlist as ShellToolContainerNetworkPolicyAllowlist,
    ShellToolContainerNetworkPolicyDisabled as ShellToolContainerNetworkPolicyDisabled,
    ShellToolContainerNetworkPolicyDomainSecret as ShellToolContainerNetworkPolicyDomainSecret,
    ShellToolContainerReferenceEnvironment as ShellToolContainerReferenceEnvironment,
    ShellToolContainerSkill as ShellToolContainerSkill,
    ShellToolEnvironment as ShellToolEnvironment,
    ShellToolHostedEnvironment as ShellToolHostedEnvironment,
    ShellToolInlineSkill as ShellToolInlineSkill,
    ShellToolInlineSkillSource as ShellToolInlineSkillSource,
    ShellToolLocalEnvironment as ShellToolLocalEnvironment,
    ShellToolLocalSkill as ShellToolLocalSkill,
    ShellToolSkillReference as ShellToolSkillReference,
    ToolSearchTool as ToolSearchTool,
    WebSearchTool as WebSearchTool,
    WebSearchToolImageSettings as WebSearchToolImageSettings,
    dispose_resolved_computers as dispose_resolved_computers,
    resolve_computer as resolve_computer,
)
from ekiden.compat.agents.items import (
    ToolOutputFileContent as ToolOutputFileContent,
    ToolOutputFileContentDict as ToolOutputFileContentDict,
    ToolOutputImage as ToolOutputImage,
    ToolOutputImageDict as ToolOutputImageDict,
    ToolOutputText as ToolOutputText,
    ToolOutputTextDict as ToolOutputTextDict,
    ValidToolOutputPydanticModels as ValidToolOutputPydanticModels,
    ValidToolOutputPydanticModelsTypeAdapter as ValidToolOutputPydanticModelsTypeAdapter,
)
from ekiden.compat.agents.not_supported import placeholders
from ekiden.compat.agents.run_context import RunContextWrapper
from ekiden.compat.agents.strict_schema import ensure_strict_json_schema
from ekiden.tools.under_way import in_thread

ToolCaller: TypeAlias = Literal["direct", "programmatic"]
ToolTimeoutBehavior: TypeAlias = Literal["error_as_result", "raise_exception"]
ToolErrorFunction: TypeAlias = Callable[[Any, Exception], Any]
ToolFunction: TypeAlias = Callable[..., Any]
ToolFunctionWithoutContext: TypeAlias = Callable[..., Any]
ToolFunctionWithContext: TypeAlias = Callable[..., Any]
ToolFunctionWithToolContext: TypeAlias = Callable[..., Any]
FunctionToolCustomDataExtractor: TypeAlias = Callable[["FunctionToolCustomDataContext"], Any]
DEFAULT_APPROVAL_REJECTION_MESSAGE = "Tool execution was not approved."
_UNSET: Any = object()


class ToolOriginType(StrEnum):
    """The type of a tool's origin."""

    FUNCTION = "function"
    MCP = "mcp"
    AGENT_AS_TOOL = "agent_as_tool"


@dataclass(frozen=True)
class ToolOrigin:
    """The origin of a tool, with the names of its source."""

    type: ToolOriginType
    mcp_server_name: str | None = None
    agent_name: str | None = None
    agent_tool_name: str | None = None

    def to_json_dict(self) -> dict[str, str]:
        """The fields that are set, as JSON."""
        data = {"type": self.type.value}
        for name in ("mcp_server_name", "agent_name", "agent_tool_name"):
            if getattr(self, name) is not None:
                data[name] = getattr(self, name)
        return data

    @classmethod
    def from_json_dict(cls, data: Any) -> ToolOrigin | None:
        """The inverse of `to_json_dict`; `None` for an invalid value."""
        if not isinstance(data, Mapping) or data.get("type") not in {
            t.value for t in ToolOriginType
        }:
            return None
        names = ("mcp_server_name", "agent_name", "agent_tool_name")
        return cls(type=ToolOriginType(data["type"]), **{n: data[n] for n in names if n in data})


@dataclass(frozen=True)
class FunctionToolCustomDataContext:
    """The argument of a `custom_data_extractor`."""

    tool_context: Any
    tool: FunctionTool
    output: Any
    raw_item: Mapping[str, Any]


@dataclass
class FunctionToolResult:
    """The result of a tool in a turn; the argument of a `tool_use_behavior` function."""

    tool: FunctionTool
    output: Any
    run_item: Any
    interruptions: list[Any] = field(default_factory=list)
    agent_run_result: Any = None


@dataclass
class FunctionTool:
    """A function that the model may call; `function_tool` creates it."""

    name: str
    description: str
    params_json_schema: dict[str, Any]
    on_invoke_tool: Callable[[Any, str], Awaitable[Any]]
    """Called with the context and the JSON text of the arguments."""
    strict_json_schema: bool = True
    is_enabled: bool | Callable[[Any, Any], Any] = True
    tool_input_guardrails: list[Any] | None = None
    tool_output_guardrails: list[Any] | None = None
    needs_approval: bool | Callable[[Any, dict[str, Any], str], Any] = False
    """Whether a person must approve the call: always, or if the function returns true."""
    timeout_seconds: float | None = None
    timeout_behavior: ToolTimeoutBehavior = "error_as_result"
    timeout_error_function: ToolErrorFunction | None = None
    defer_loading: bool = False
    custom_data_extractor: FunctionToolCustomDataExtractor | None = field(
        default=None, kw_only=True
    )
    allowed_callers: list[ToolCaller] | None = field(default=None, kw_only=True)
    output_json_schema: dict[str, Any] | None = field(default=None, kw_only=True)
    failure_error_function: ToolErrorFunction | None = field(default=None, kw_only=True, repr=False)
    agent: Any = field(default=None, kw_only=True, repr=False)
    """The agent that the tool calls, if any."""
    namespace: str | None = field(default=None, kw_only=True, repr=False)
    namespace_description: str | None = field(default=None, kw_only=True, repr=False)
    title: str | None = field(default=None, kw_only=True, repr=False)
    origin: ToolOrigin | None = field(default=None, kw_only=True, repr=False)
    mcp_annotations: Any = field(default=None, kw_only=True, repr=False)

    def __post_init__(self) -> None:
        if self.allowed_callers is not None:
            unknown = [
                each for each in self.allowed_callers if each not in ("direct", "programmatic")
            ]
            if unknown or not self.allowed_callers:
                raise UserError(f"allowed_callers of tool {self.name!r} are direct, programmatic")
        if self.strict_json_schema:
            self.params_json_schema = ensure_strict_json_schema(
                copy.deepcopy(self.params_json_schema)
            )
        self._check_timeout()

    def _check_timeout(self) -> None:
        limit = self.timeout_seconds
        if limit is not None:
            if isinstance(limit, bool) or not isinstance(limit, int | float):
                raise TypeError(
                    "FunctionTool timeout_seconds must be a positive number in seconds or None."
                )
            if not math.isfinite(limit):
                raise ValueError("FunctionTool timeout_seconds must be a finite number.")
            if limit <= 0:
                raise ValueError("FunctionTool timeout_seconds must be greater than 0.")
        if self.timeout_behavior not in ("error_as_result", "raise_exception"):
            raise ValueError(
                "FunctionTool timeout_behavior must be one of: 'error_as_result', "
                "'raise_exception'."
            )
        if self.timeout_error_function is not None and not callable(self.timeout_error_function):
            raise TypeError("FunctionTool timeout_error_function must be callable or None.")

    @property
    def qualified_name(self) -> str:
        """The name with its namespace."""
        if self.namespace and self.namespace != self.name:
            return f"{self.namespace}.{self.name}"
        return self.name

    @property
    def __wrapped__(self) -> Callable[..., Any]:
        """The function that the tool was made of."""
        found = getattr(self.on_invoke_tool, "made_of", None)
        if found is None:
            raise AttributeError("__wrapped__")
        return found  # type: ignore[no-any-return]


Tool: TypeAlias = Any
"""A `FunctionTool`, or one of the tools that a provider runs."""


def default_tool_error_function(ctx: Any, error: Exception) -> str:
    """The text that the model gets after a failure, without the text of the exception."""
    return "An error occurred while running the tool. Please try again."


def default_tool_timeout_error_message(*, tool_name: str, timeout_seconds: float) -> str:
    """What the model is told of a tool that took too long."""
    return f"Tool '{tool_name}' timed out after {timeout_seconds:g} seconds."


def get_function_tool_origin(function_tool: FunctionTool) -> ToolOrigin | None:
    """Where the tool comes from."""
    return function_tool.origin or ToolOrigin(type=ToolOriginType.FUNCTION)


def tool_namespace(
    *, name: str, description: str | None, tools: list[FunctionTool]
) -> list[FunctionTool]:
    """Copies of the tools in a namespace of the Responses API."""
    if not name or not name.strip():
        raise UserError("tool_namespace() requires a non-empty name.")
    if description is None or not description.strip():
        raise UserError("tool_namespace() requires a non-empty description.")
    copies = []
    for tool in tools:
        if not isinstance(tool, FunctionTool):
            raise UserError("tool_namespace() only supports FunctionTool instances.")
        copied = copy.copy(tool)
        copied.namespace, copied.namespace_description = name.strip(), description.strip()
        copies.append(copied)
    return copies


def get_function_tool_responses_only_features(tool: FunctionTool) -> tuple[str, ...]:
    """What of the tool only the Responses API knows."""
    used = {
        "tool_namespace()": tool.namespace is not None,
        "defer_loading=True": tool.defer_loading,
        "allowed_callers": tool.allowed_callers is not None,
        "output_json_schema": tool.output_json_schema is not None,
    }
    return tuple(name for name, is_used in used.items() if is_used)


def ensure_function_tool_supports_responses_only_features(
    tool: FunctionTool, *, backend_name: str
) -> None:
    """Refuse a tool for a model that cannot do all of it."""
    used = ", ".join(get_function_tool_responses_only_features(tool))
    if used:
        raise UserError(
            f"{backend_name} cannot use {used} of the tool {tool.qualified_name!r}; "
            "use a Responses model"
        )


def ensure_tool_choice_supports_backend(tool_choice: Any, *, backend_name: str) -> None:
    """Refuse a choice that only the Responses API knows."""
    if tool_choice == "programmatic_tool_calling":
        raise UserError(
            f"{backend_name} cannot use tool_choice {tool_choice!r}; use a Responses model"
        )


def is_required_tool_search_surface(tool: Tool) -> bool:
    """Whether the model finds the tool only with a `ToolSearchTool`."""
    if isinstance(tool, HostedMCPTool):
        return bool(tool.tool_config.get("defer_loading"))
    return isinstance(tool, FunctionTool) and tool.defer_loading


def is_responses_tool_search_surface(tool: Tool) -> bool:
    """Whether a `ToolSearchTool` can find the tool."""
    has_namespace = isinstance(tool, FunctionTool) and tool.namespace is not None
    return has_namespace or is_required_tool_search_surface(tool)


def has_required_tool_search_surface(tools: list[Tool]) -> bool:
    """Whether one of the tools is found only with a `ToolSearchTool`."""
    return any(is_required_tool_search_surface(each) for each in tools)


def has_responses_tool_search_surface(tools: list[Tool]) -> bool:
    """Whether a `ToolSearchTool` can find one of the tools."""
    return any(is_responses_tool_search_surface(each) for each in tools)


def prune_orphaned_tool_search_tools(tools: list[Tool]) -> list[Tool]:
    """The tools as they are: a `ToolSearchTool` without use is refused with the request."""
    return tools


def validate_responses_tool_search_configuration(
    tools: list[Tool], *, allow_opaque_search_surface: bool = False
) -> None:
    """Refuse tools that need a `ToolSearchTool` without one, and one without such tools."""
    searches = sum(isinstance(each, ToolSearchTool) for each in tools)
    if searches > 1:
        raise UserError("Only one ToolSearchTool() is allowed")
    if has_required_tool_search_surface(tools) and not searches:
        raise UserError("Tools with defer_loading=True need ToolSearchTool() beside them")
    if searches and not (allow_opaque_search_surface or has_responses_tool_search_surface(tools)):
        raise UserError("ToolSearchTool() needs a namespace, or a tool with defer_loading=True")


def validate_responses_programmatic_tool_calling_configuration(
    tools: list[Tool],
    *,
    tool_choice: Any = None,
    allow_opaque_tool_search_surface: bool = False,
) -> None:
    """Refuse tools for programs without a `ProgrammaticToolCallingTool`."""
    callers = sum(isinstance(each, ProgrammaticToolCallingTool) for each in tools)
    if callers > 1:
        raise UserError("Only one ProgrammaticToolCallingTool() is allowed")
    if tool_choice == "programmatic_tool_calling" and not callers:
        raise UserError(
            f"tool_choice {tool_choice!r} needs ProgrammaticToolCallingTool() among the tools"
        )
    for tool in tools:
        allowed = getattr(tool, "allowed_callers", None)
        if not callers and allowed and "direct" not in allowed:
            raise UserError(
                f"the tool {tool.name!r} is for programs only: add ProgrammaticToolCallingTool()"
            )


def resolve_function_tool_failure_error_function(
    function_tool: FunctionTool, context: Any = None
) -> ToolErrorFunction | None:
    """How failures of the tool are worded; `None` if they end the run."""
    return function_tool.failure_error_function


async def maybe_invoke_function_tool_failure_error_function(
    *, function_tool: FunctionTool, context: Any, error: BaseException
) -> str | None:
    """What the model is told of a failure; `None` if it ends the run."""
    told = resolve_function_tool_failure_error_function(function_tool, context)
    if told is None:
        return None
    known = error if isinstance(error, Exception) else UserError(str(error) or "cancelled")
    said = told(context, known)
    return str(await said if inspect.isawaitable(said) else said)


@overload
def function_tool(func: ToolFunction, **options: Any) -> FunctionTool: ...
@overload
def function_tool(**options: Any) -> Callable[[ToolFunction], FunctionTool]: ...
def function_tool(  # type: ignore[misc]
    func: ToolFunction | None = None,
    *,
    name_override: str | None = None,
    description_override: str | None = None,
    docstring_style: DocstringStyle | None = None,
    use_docstring_info: bool = True,
    failure_error_function: ToolErrorFunction | None = _UNSET,
    strict_mode: bool = True,
    is_enabled: bool | Callable[[Any, Any], Any] = True,
    needs_approval: bool | Callable[[Any, dict[str, Any], str], Any] = False,
    tool_input_guardrails: list[Any] | None = None,
    tool_output_guardrails: list[Any] | None = None,
    timeout: float | None = None,
    timeout_behavior: ToolTimeoutBehavior = "error_as_result",
    timeout_error_function: ToolErrorFunction | None = None,
    defer_loading: bool = False,
    custom_data_extractor: FunctionToolCustomDataExtractor | None = None,
    allowed_callers: list[ToolCaller] | None = None,
    output_type: Any = None,
    output_json_schema: dict[str, Any] | None = None,
) -> Any:
    """Turn a function into a tool. Use it as a decorator, with or without arguments.

    A synchronous function runs in a thread. `needs_approval` suspends the run until a person
    approves the call, in the inbox or with `RunState.approve`.
    """
    on_failure = (
        default_tool_error_function if failure_error_function is _UNSET else failure_error_function
    )

    def make(function: ToolFunction) -> FunctionTool:
        schema = function_schema(
            func=function,
            name_override=name_override,
            description_override=description_override,
            docstring_style=docstring_style,
            use_docstring_info=use_docstring_info,
            strict_json_schema=strict_mode,
        )
        shape = output_json_schema
        if output_type is not None and shape is None:
            shape = TypeAdapter(output_type).json_schema()

        async def call(ctx: Any, arguments: str) -> Any:
            return await _called(function, schema, ctx, arguments)

        invoke = handled(call, schema.name, on_failure)
        invoke.made_of = function  # type: ignore[attr-defined]
        return FunctionTool(
            name=schema.name,
            description=schema.description or "",
            params_json_schema=schema.params_json_schema,
            on_invoke_tool=invoke,
            strict_json_schema=strict_mode,
            is_enabled=is_enabled,
            tool_input_guardrails=tool_input_guardrails,
            tool_output_guardrails=tool_output_guardrails,
            needs_approval=needs_approval,
            timeout_seconds=timeout,
            timeout_behavior=timeout_behavior,
            timeout_error_function=timeout_error_function,
            defer_loading=defer_loading,
            custom_data_extractor=custom_data_extractor,
            allowed_callers=allowed_callers,
            output_json_schema=shape,
            failure_error_function=on_failure,
        )

    return make if func is None else make(func)


async def _called(function: ToolFunction, schema: Any, ctx: Any, arguments: str) -> Any:
    given = read_arguments(schema.name, arguments)
    try:
        parsed = schema.params_pydantic_model(**given)
    except ValidationError as exc:
        raise ModelBehaviorError(f"Invalid JSON input for tool {schema.name}: {exc}") from exc
    positional, named = schema.to_call_args(parsed)
    if schema.takes_context:
        positional = [ctx, *positional]
    if inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004
    ):
        return await function(*positional, **named)
    result = await in_thread(function, *positional, **named)
    return await result if inspect.isawaitable(result) else result


def read_arguments(tool: str, arguments: str) -> dict[str, Any]:
    """The arguments of a call; `ModelBehaviorError` if they are no JSON object."""
    try:
        given = json.loads(arguments) if arguments else {}
    except ValueError as exc:
        raise ModelBehaviorError(f"Invalid JSON input for tool {tool}: {arguments}") from exc
    if not isinstance(given, dict):
        raise ModelBehaviorError(f"Invalid JSON input for tool {tool}: expected a JSON object")
    return given


def handled(
    call: Callable[[Any, str], Awaitable[Any]], name: str, on_failure: ToolErrorFunction | None
) -> Callable[[Any, str], Awaitable[Any]]:
    """The call, with a failure worded for the model; `None` lets it through."""

    async def invoke(ctx: Any, arguments: str) -> Any:
        try:
            return await call(ctx, arguments)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if on_failure is None or (task is not None and task.cancelling()):
                raise
            error: Exception = UserError(f"Tool '{name}' was cancelled.")
        except Exception as exc:
            if on_failure is None:
                raise
            error = exc
        if hasattr(ctx, "failure"):
            ctx.failure = error
        told = on_failure(ctx, error)
        return await told if inspect.isawaitable(told) else told

    return invoke


async def invoke_function_tool(*, function_tool: FunctionTool, context: Any, arguments: str) -> Any:
    """Call the tool, no longer than its time-out; a tool that takes the plain context gets it."""
    limit = function_tool.timeout_seconds
    context = _wanted_context(function_tool, context)
    if limit is None:
        return await function_tool.on_invoke_tool(context, arguments)
    scope = asyncio.timeout(limit)
    try:
        async with scope:
            return await function_tool.on_invoke_tool(context, arguments)
    except TimeoutError:
        if not scope.expired():
            raise
    error = ToolTimeoutError(function_tool.name, limit)
    if function_tool.timeout_behavior == "raise_exception":
        raise error
    if function_tool.timeout_error_function is not None:
        told = function_tool.timeout_error_function(context, error)
        return await told if inspect.isawaitable(told) else told
    return default_tool_timeout_error_message(tool_name=function_tool.name, timeout_seconds=limit)


def _wanted_context(tool: FunctionTool, context: Any) -> Any:
    """The context of the call, or that of the run if the tool is annotated with it."""
    if getattr(tool.on_invoke_tool, "made_of", None) is not None:
        return context
    try:
        first = next(iter(get_type_hints(tool.on_invoke_tool).values()), None)
    except (NameError, TypeError):
        return context
    if (get_origin(first) or first) is not RunContextWrapper:
        return context
    made: RunContextWrapper[Any] = RunContextWrapper(
        context.context,
        context.usage,
        context.turn_input,
        context.tool_input,
        decisions=context.decisions,
    )
    made.join(context)
    return made


def run_error(tool: str, error: Exception) -> Exception:
    """What a run ends with when a tool lets `error` through."""
    if isinstance(error, AgentsException):
        return error
    wrapped = UserError(f"Error running tool {tool}: {error}")
    wrapped.__cause__ = error
    return wrapped


__getattr__ = placeholders(__name__)
