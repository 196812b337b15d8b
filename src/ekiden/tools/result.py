"""How a call of a tool ended."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ekiden.core.tool_guardrails import GuardrailDecision


@dataclass(frozen=True, slots=True)
class ToolResult:
    """How a call ended."""

    output: Any
    """JSON: the content of the ``function_call_output`` item."""
    value: Any
    """What the tool returned; `None` if it failed."""
    error: str | None = None
    """Why it failed, for people; the model reads `output`."""
    guardrails: tuple[GuardrailDecision, ...] = ()
    """What the tool's guardrails decided, in the order in which they were asked."""
    kinds: tuple[str, ...] = ()
    """What the error can be called: its class and those above it, and its code."""
    is_run: bool = True
    """Whether the call was made; not without the approval that it needs."""
