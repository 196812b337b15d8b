"""Errors, under the names that this SDK gives them."""

from ekiden.core.errors import EkidenError as AgentsException
from ekiden.core.errors import MaxTurnsExceeded, ModelBehaviorError, UserError
from ekiden.core.errors import ToolTimeout as ToolTimeoutError
from ekiden.core.guardrails import (
    InputGuardrailTripwireTriggered,
    OutputGuardrailTripwireTriggered,
    ToolInputGuardrailTripwireTriggered,
    ToolOutputGuardrailTripwireTriggered,
)

__all__ = [
    "AgentsException",
    "InputGuardrailTripwireTriggered",
    "MaxTurnsExceeded",
    "ModelBehaviorError",
    "OutputGuardrailTripwireTriggered",
    "ToolInputGuardrailTripwireTriggered",
    "ToolOutputGuardrailTripwireTriggered",
    "ToolTimeoutError",
    "UserError",
]
