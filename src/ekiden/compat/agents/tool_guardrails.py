"""Checks around one tool."""

from ekiden.core.tools.guardrails import (
    AllowBehavior as AllowBehavior,
    RaiseExceptionBehavior as RaiseExceptionBehavior,
    RejectContentBehavior as RejectContentBehavior,
    ToolGuardrailFunctionOutput as ToolGuardrailFunctionOutput,
    ToolInputGuardrail as ToolInputGuardrail,
    ToolInputGuardrailData as ToolInputGuardrailData,
    ToolInputGuardrailResult as ToolInputGuardrailResult,
    ToolOutputGuardrail as ToolOutputGuardrail,
    ToolOutputGuardrailData as ToolOutputGuardrailData,
    ToolOutputGuardrailResult as ToolOutputGuardrailResult,
    tool_input_guardrail as tool_input_guardrail,
    tool_output_guardrail as tool_output_guardrail,
)
