"""Decorators that make tools and guardrails of functions."""

from ekiden.compat.agents.guardrail import input_guardrail, output_guardrail
from ekiden.compat.agents.tool import function_tool
from ekiden.compat.agents.tool_guardrails import tool_input_guardrail, tool_output_guardrail

tool = function_tool

__all__ = [
    "function_tool",
    "input_guardrail",
    "output_guardrail",
    "tool",
    "tool_input_guardrail",
    "tool_output_guardrail",
]
