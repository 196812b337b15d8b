"""Handoffs: one way from an agent to another, shown to the model as a tool."""

from ekiden.compat.agents.handoffs.history import (
    HandoffHistoryMapper as HandoffHistoryMapper,
    default_handoff_history_mapper as default_handoff_history_mapper,
    get_conversation_history_wrappers as get_conversation_history_wrappers,
    nest_handoff_history as nest_handoff_history,
    reset_conversation_history_wrappers as reset_conversation_history_wrappers,
    set_conversation_history_wrappers as set_conversation_history_wrappers,
)
from ekiden.compat.agents.handoffs.tool import (
    Handoff as Handoff,
    OnHandoffWithInput as OnHandoffWithInput,
    OnHandoffWithoutInput as OnHandoffWithoutInput,
    handoff as handoff,
)
from ekiden.compat.agents.not_supported import names_of
from ekiden.core.handoffs import (
    HandoffInputData as HandoffInputData,
    HandoffInputFilter as HandoffInputFilter,
)

__all__ = names_of(__name__)
