"""Built-in guardrails: JSON Schemas and validators."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ekiden.core.integrations.lazy import lazy_names

if TYPE_CHECKING:
    from ekiden.guardrails.answers import schema_guardrail as schema_guardrail
    from ekiden.guardrails.compile import (
        GuardrailUnusable as GuardrailUnusable,
        SchemaUnusable as SchemaUnusable,
    )
    from ekiden.guardrails.validators import (
        handoff_validator_guardrail as handoff_validator_guardrail,
        input_validator_guardrail as input_validator_guardrail,
        tool_input_validator_guardrail as tool_input_validator_guardrail,
        tool_output_validator_guardrail as tool_output_validator_guardrail,
        validator_guardrail as validator_guardrail,
    )

__getattr__ = lazy_names(__name__)
