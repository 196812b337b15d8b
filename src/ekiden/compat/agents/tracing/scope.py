"""The trace and the span that the code at hand is part of, and new ids for them."""

from __future__ import annotations

import uuid
from contextvars import ContextVar, Token
from typing import Any

IS_RELAYED: ContextVar[bool] = ContextVar("is_relayed", default=False)
"""Whether the layer makes the spans of a run itself."""
_span: ContextVar[Any] = ContextVar("current_span", default=None)
_trace: ContextVar[Any] = ContextVar("current_trace", default=None)


class Scope:
    """Per task, as context variables are."""

    @classmethod
    def get_current_span(cls) -> Any:
        """The innermost span that is open."""
        return _span.get()

    @classmethod
    def set_current_span(cls, span: Any) -> Token[Any]:
        """Make a span the current one; the token undoes it."""
        return _span.set(span)

    @classmethod
    def reset_current_span(cls, token: Token[Any]) -> None:
        """Undo `set_current_span`."""
        _span.reset(token)

    @classmethod
    def get_current_trace(cls) -> Any:
        """The trace that is open."""
        return _trace.get()

    @classmethod
    def set_current_trace(cls, trace: Any) -> Token[Any]:
        """Make a trace the current one; the token undoes it."""
        return _trace.set(trace)

    @classmethod
    def reset_current_trace(cls, token: Token[Any]) -> None:
        """Undo `set_current_trace`."""
        _trace.reset(token)


def new_trace_id() -> str:
    """A new id of a trace."""
    return f"trace_{uuid.uuid4().hex}"


def new_span_id() -> str:
    """A new id of a span."""
    return f"span_{uuid.uuid4().hex[:24]}"


def new_group_id() -> str:
    """A new id of a group."""
    return f"group_{uuid.uuid4().hex[:24]}"
