"""Filters for what the target of a handoff sees."""

from ekiden.handoff import (
    default_handoff_history_mapper as default_handoff_history_mapper,
    nest_handoff_history as nest_handoff_history,
    remove_all_tools as remove_all_tools,
)
