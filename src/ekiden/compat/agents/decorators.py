"""Decorators that make tools and guardrails of functions."""

from ekiden.compat.agents.guardrail import (
    input_guardrail as input_guardrail,
    output_guardrail as output_guardrail,
)
from ekiden.compat.agents.tool import function_tool as function_tool
from ekiden.compat.agents.tool_guardrails import (
    tool_input_guardrail as tool_input_guardrail,
    tool_output_guardrail as tool_output_guardrail,
)

tool = function_tool
