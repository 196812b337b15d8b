"""Errors, under the names that this SDK gives them."""

from ekiden.core.errors import EkidenError as AgentsException
from ekiden.core.errors import MaxTurnsExceeded, ModelBehaviorError, UserError
from ekiden.core.errors import ToolTimeout as ToolTimeoutError

__all__ = [
    "AgentsException",
    "MaxTurnsExceeded",
    "ModelBehaviorError",
    "ToolTimeoutError",
    "UserError",
]
