"""Nesting the past into one message."""

from ekiden.handoff import HistoryMapper as HandoffHistoryMapper
from ekiden.handoff import (
    default_handoff_history_mapper,
    get_conversation_history_wrappers,
    nest_handoff_history,
    reset_conversation_history_wrappers,
    set_conversation_history_wrappers,
)

__all__ = [
    "HandoffHistoryMapper",
    "default_handoff_history_mapper",
    "get_conversation_history_wrappers",
    "nest_handoff_history",
    "reset_conversation_history_wrappers",
    "set_conversation_history_wrappers",
]
