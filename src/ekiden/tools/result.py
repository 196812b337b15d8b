"""How a call of a tool ended."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ekiden.core.tool_guardrails import GuardrailDecision


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The result of a call."""

    output: Any
    """JSON: the content of the ``function_call_output`` item."""
    value: Any
    """What the tool returned; `None` if it failed."""
    error: str | None = None
    """Why it failed, for people; the model reads `output`."""
    guardrails: tuple[GuardrailDecision, ...] = ()
    """The decisions of the tool's guardrails, in order."""
    kinds: tuple[str, ...] = ()
    """The names of the error: its class, its base classes, and its code."""
    is_run: bool = True
    """Whether the call was made; not without a required approval."""
