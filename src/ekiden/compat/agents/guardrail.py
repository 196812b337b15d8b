"""Checks of what agents are given and what they answer."""

from ekiden.core.guardrails import (
    GuardrailFunctionOutput as GuardrailFunctionOutput,
    InputGuardrail as InputGuardrail,
    InputGuardrailResult as InputGuardrailResult,
    OutputGuardrail as OutputGuardrail,
    OutputGuardrailResult as OutputGuardrailResult,
    input_guardrail as input_guardrail,
    output_guardrail as output_guardrail,
)
