"""Nesting the past into one message."""

from ekiden.handoff import (
    HistoryMapper,
    default_handoff_history_mapper as default_handoff_history_mapper,
    get_conversation_history_wrappers as get_conversation_history_wrappers,
    nest_handoff_history as nest_handoff_history,
    reset_conversation_history_wrappers as reset_conversation_history_wrappers,
    set_conversation_history_wrappers as set_conversation_history_wrappers,
)

HandoffHistoryMapper = HistoryMapper
