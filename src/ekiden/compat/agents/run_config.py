"""How a run behaves, with the SDK's fields, and the runner that `Runner` asks."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any, Generic, Literal, TypeAlias

from typing_extensions import TypedDict

from ekiden.compat.agents.logger import logger
from ekiden.compat.agents.model_settings import ModelSettings, coerce_settings
from ekiden.compat.agents.not_supported import placeholders
from ekiden.core.context import TContext

DEFAULT_MAX_TURNS = 10
ReasoningItemIdPolicy: TypeAlias = Literal["preserve", "omit"]
ToolNotFoundBehavior: TypeAlias = Literal["raise_error", "return_error_to_model"]
ToolNameCollisionPolicy: TypeAlias = Literal["warn", "error"]


def _default_trace_include_sensitive_data() -> bool:
    wanted = os.getenv("OPENAI_AGENTS_TRACE_INCLUDE_SENSITIVE_DATA", "true")
    return wanted.strip().lower() in ("1", "true", "yes", "on")


@dataclass
class ModelInputData:
    """The input of a model call."""

    input: list[Any]
    instructions: str | None


@dataclass
class CallModelData(Generic[TContext]):
    """The argument of a `call_model_input_filter`."""

    model_data: ModelInputData
    agent: Any
    context: TContext | None


@dataclass
class ToolErrorFormatterArgs(Generic[TContext]):
    """The argument of a `tool_error_formatter`."""

    kind: Literal["approval_rejected", "tool_not_found", "tool_exception"]
    tool_type: Literal["function", "computer", "shell", "apply_patch", "custom"]
    tool_name: str
    call_id: str
    default_message: str
    run_context: Any
    error: Exception | None = None


@dataclass
class OutputGuardrailBlockedMessageArgs(Generic[TContext]):
    """The argument of an `output_guardrail_blocked_message` function."""

    default_message: str
    guardrail_name: str
    agent: Any
    run_context: Any


CallModelInputFilter: TypeAlias = Callable[[CallModelData[Any]], Any]
OutputGuardrailBlockedMessageFormatter: TypeAlias = Callable[
    [OutputGuardrailBlockedMessageArgs[Any]], str
]
ToolErrorFormatter: TypeAlias = Callable[[ToolErrorFormatterArgs[Any]], Any]


@dataclass
class ToolExecutionConfig:
    """Settings for running the tools of a turn."""

    max_function_tool_concurrency: int | None = None
    pre_approval_tool_input_guardrails: bool = False

    def __post_init__(self) -> None:
        most = self.max_function_tool_concurrency
        if most is not None and (isinstance(most, bool) or not isinstance(most, int) or most < 1):
            raise ValueError("tool_execution.max_function_tool_concurrency must be at least 1")


@dataclass
class RunConfig:
    """Settings of one run; you can use all defaults."""

    model: Any = None
    model_provider: Any = None
    """Finds models by name. `None`: OpenAI's models for plain names, otherwise ``provider:model``.
    """
    model_settings: ModelSettings | None = None
    handoff_input_filter: Any = None
    nest_handoff_history: bool = False
    handoff_history_mapper: Any = None
    input_guardrails: list[Any] | None = None
    output_guardrails: list[Any] | None = None
    tracing_disabled: bool = False
    tracing: Any = None
    trace_include_sensitive_data: bool = field(
        default_factory=_default_trace_include_sensitive_data
    )
    workflow_name: str = "Agent workflow"
    trace_id: str | None = None
    group_id: str | None = None
    trace_metadata: dict[str, Any] | None = None
    session_input_callback: Any = None
    call_model_input_filter: CallModelInputFilter | None = None
    tool_error_formatter: ToolErrorFormatter | None = None
    session_settings: Any = None
    reasoning_item_id_policy: ReasoningItemIdPolicy | None = None
    sandbox: Any = None
    tool_execution: ToolExecutionConfig | None = None
    tool_not_found_behavior: ToolNotFoundBehavior = "raise_error"
    tool_name_collision_policy: ToolNameCollisionPolicy = "warn"
    output_guardrail_blocked_message: str | Callable[..., Any] | None = None
    """Has no effect. The value is checked, and a warning is logged."""
    sinks: list[Any] = field(default_factory=list, kw_only=True)
    """Event sinks of Ekiden: each gets every event after it is stored."""

    def __post_init__(self) -> None:
        if self.tool_name_collision_policy not in ("warn", "error"):
            raise ValueError("tool_name_collision_policy must be either 'warn' or 'error'")
        blocked = self.output_guardrail_blocked_message
        if isinstance(blocked, str) and not blocked:
            raise ValueError("output_guardrail_blocked_message must be non-empty")
        if blocked is not None and not isinstance(blocked, str) and not callable(blocked):
            raise TypeError("output_guardrail_blocked_message must be a string, callable, or None")
        if inspect.iscoroutinefunction(blocked):
            raise TypeError("output_guardrail_blocked_message formatter must be synchronous")
        if blocked is not None:
            logger.warning("output_guardrail_blocked_message has no effect in Ekiden")
        if self.model_settings is not None:
            self.model_settings = coerce_settings(self.model_settings)
        if isinstance(self.tool_execution, dict):
            self.tool_execution = ToolExecutionConfig(**self.tool_execution)


class RunOptions(TypedDict, total=False):
    """What `Runner.run` takes beside the agent and its input."""

    context: Any
    max_turns: int | None
    hooks: Any
    run_config: RunConfig | dict[str, Any] | None
    previous_response_id: str | None
    auto_previous_response_id: bool
    conversation_id: str | None
    session: Any
    error_handlers: Any


def coerce_config(value: Any) -> RunConfig:
    """A `RunConfig`, or a dictionary of its fields, as an object; `TypeError` for all else."""
    if value is None:
        return RunConfig()
    if isinstance(value, RunConfig):
        return value
    if not isinstance(value, dict):
        raise TypeError(f"run_config must be a RunConfig or a dict, got {type(value).__name__}")
    unknown = sorted(set(value) - {each.name for each in fields(RunConfig)})
    if unknown:
        raise TypeError(f"Unknown run_config settings: {', '.join(unknown)}")
    return RunConfig(**value)


__getattr__ = placeholders(__name__)


_runner: Any = None
_built_in: Any = None


def set_built_in(runner: Any) -> None:
    """The runner that is used unless another one is set."""
    global _built_in
    _built_in = runner


def get_default_agent_runner() -> Any:
    """The runner that `Runner` asks."""
    return _built_in if _runner is None else _runner


def set_default_agent_runner(runner: Any) -> None:
    """Make `Runner` ask another runner; `None` restores the built-in one."""
    global _runner
    _runner = runner
