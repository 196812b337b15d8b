"""Errors, under the names that this SDK gives them."""

from ekiden.core.errors import EkidenError as AgentsException
from ekiden.core.errors import (
    MaxTurnsExceeded,
    ModelBehaviorError,
    ToolInputGuardrailTripwireTriggered,
    ToolOutputGuardrailTripwireTriggered,
    UserError,
)
from ekiden.core.errors import ToolTimeout as ToolTimeoutError

__all__ = [
    "AgentsException",
    "MaxTurnsExceeded",
    "ModelBehaviorError",
    "ToolInputGuardrailTripwireTriggered",
    "ToolOutputGuardrailTripwireTriggered",
    "ToolTimeoutError",
    "UserError",
]
