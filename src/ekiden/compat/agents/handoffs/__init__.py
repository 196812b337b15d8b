"""Handoffs: one way from an agent to another, shown to the model as a tool."""

from ekiden.compat.agents.handoffs.history import (
    HandoffHistoryMapper,
    default_handoff_history_mapper,
    get_conversation_history_wrappers,
    nest_handoff_history,
    reset_conversation_history_wrappers,
    set_conversation_history_wrappers,
)
from ekiden.compat.agents.handoffs.tool import (
    Handoff,
    OnHandoffWithInput,
    OnHandoffWithoutInput,
    handoff,
)
from ekiden.core.handoffs.handoff import HandoffInputData, HandoffInputFilter

__all__ = [
    "Handoff",
    "HandoffHistoryMapper",
    "HandoffInputData",
    "HandoffInputFilter",
    "OnHandoffWithInput",
    "OnHandoffWithoutInput",
    "default_handoff_history_mapper",
    "get_conversation_history_wrappers",
    "handoff",
    "nest_handoff_history",
    "reset_conversation_history_wrappers",
    "set_conversation_history_wrappers",
]
