"""Errors, under the SDK's names and with its constructors."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ekiden.core.errors import (
    EkidenError,
    ModelBehaviorError as ModelBehaviorError,
    UserError as UserError,
)
from ekiden.core.guardrails import (
    InputGuardrailTripwireTriggered as InputGuardrailTripwireTriggered,
    OutputGuardrailTripwireTriggered as OutputGuardrailTripwireTriggered,
    ToolInputGuardrailTripwireTriggered as ToolInputGuardrailTripwireTriggered,
    ToolOutputGuardrailTripwireTriggered as ToolOutputGuardrailTripwireTriggered,
)

AgentsException = EkidenError


@dataclass
class RunErrorDetails:
    """The work of a run before it failed; see `run_data` of the error."""

    input: Any
    new_items: list[Any]
    raw_responses: list[Any]
    last_agent: Any
    context_wrapper: Any
    input_guardrail_results: list[Any]
    output_guardrail_results: list[Any]
    tool_input_guardrail_results: list[Any] = field(default_factory=list)
    tool_output_guardrail_results: list[Any] = field(default_factory=list)

    def __str__(self) -> str:
        return (
            f"RunErrorDetails:\n- Last agent: {self.last_agent.name}\n"
            f"- {len(self.new_items)} new item(s)\n"
            f"- {len(self.raw_responses)} raw response(s)\n"
            f"- {len(self.input_guardrail_results)} input guardrail result(s)\n"
            f"- {len(self.output_guardrail_results)} output guardrail result(s)"
        )


class _Said(AgentsException):
    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class MaxTurnsExceeded(_Said):
    """The run reached its limit of turns; its session can be resumed."""

    code = "run.max_turns"


class MCPToolCancellationError(_Said):
    """The server or its connection cancelled the call of an MCP tool."""

    code = "mcp.cancelled"


class ModelRefusalError(AgentsException):
    """The model declined to give the output."""

    code = "model.refused"

    def __init__(self, refusal: str) -> None:
        super().__init__(f"Model refused to produce output: {refusal}")
        self.refusal = refusal


class ModelTimeoutError(AgentsException):
    """A model call took longer than `ModelSettings.timeout`."""

    code = "model.timeout"

    def __init__(self, timeout_seconds: float) -> None:
        super().__init__(f"Model call timed out after {timeout_seconds:g} seconds.")
        self.timeout_seconds = timeout_seconds


class ToolTimeoutError(AgentsException):
    """A tool took longer than its `timeout`."""

    code = "tool.timeout"

    def __init__(self, tool_name: str, timeout_seconds: float) -> None:
        super().__init__(f"Tool '{tool_name}' timed out after {timeout_seconds:g} seconds.")
        self.tool_name = tool_name
        self.timeout_seconds = timeout_seconds
