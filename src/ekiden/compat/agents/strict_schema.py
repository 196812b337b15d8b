"""JSON Schemas as the strict mode of OpenAI's API wants them."""

from ekiden.compat.agents.not_supported import placeholders
from ekiden.core.checks.strict_schema import ensure_strict_json_schema

__all__ = ["ensure_strict_json_schema"]


__getattr__ = placeholders(__name__)
