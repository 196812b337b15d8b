"""Handoffs between agents: definitions, transfer tools, and filters for the target's view."""

from typing import TYPE_CHECKING

from ekiden.core.handoffs.handoff import Handoff, HandoffInputData, HandoffInputFilter
from ekiden.core.integrations.lazy import lazy_names
from ekiden.handoff.offers import (
    RECOMMENDED_PROMPT_PREFIX,
    default_handoff,
    get_handoffs,
    prompt_with_handoff_instructions,
    received_block,
    resolve_tool_name_collisions,
)
from ekiden.handoff.tool import BEST, PERSON, handoff, make_terms, person

if TYPE_CHECKING:
    from ekiden.handoff.declared import declared_handoff, parse_filter
    from ekiden.handoff.filters.filters import (
        HandoffFilter,
        compose,
        keep_first_and_last,
        keep_last,
        remove_all_tools,
        shorten_tool_outputs,
    )
    from ekiden.handoff.filters.redaction import redact
    from ekiden.handoff.filters.report import FilterReport
    from ekiden.handoff.filters.summaries import (
        summarise,
        summarise_with,
    )
    from ekiden.handoff.filters.transcript import (
        HistoryMapper,
        default_handoff_history_mapper,
        get_conversation_history_wrappers,
        nest_handoff_history,
        nest_history,
        reset_conversation_history_wrappers,
        set_conversation_history_wrappers,
    )

__all__ = [
    "BEST",
    "PERSON",
    "RECOMMENDED_PROMPT_PREFIX",
    "FilterReport",
    "Handoff",
    "HandoffFilter",
    "HandoffInputData",
    "HandoffInputFilter",
    "HistoryMapper",
    "compose",
    "declared_handoff",
    "default_handoff",
    "default_handoff_history_mapper",
    "get_conversation_history_wrappers",
    "get_handoffs",
    "handoff",
    "keep_first_and_last",
    "keep_last",
    "make_terms",
    "nest_handoff_history",
    "nest_history",
    "parse_filter",
    "person",
    "prompt_with_handoff_instructions",
    "received_block",
    "redact",
    "remove_all_tools",
    "reset_conversation_history_wrappers",
    "resolve_tool_name_collisions",
    "set_conversation_history_wrappers",
    "shorten_tool_outputs",
    "summarise",
    "summarise_with",
]

__getattr__ = lazy_names(
    __name__,
    {
        "declared_handoff": "ekiden.handoff.declared",
        "parse_filter": "ekiden.handoff.declared",
        "FilterReport": "ekiden.handoff.filters.report",
        "HandoffFilter": "ekiden.handoff.filters.filters",
        "compose": "ekiden.handoff.filters.filters",
        "keep_first_and_last": "ekiden.handoff.filters.filters",
        "keep_last": "ekiden.handoff.filters.filters",
        "remove_all_tools": "ekiden.handoff.filters.filters",
        "shorten_tool_outputs": "ekiden.handoff.filters.filters",
        "HistoryMapper": "ekiden.handoff.filters.transcript",
        "default_handoff_history_mapper": "ekiden.handoff.filters.transcript",
        "nest_handoff_history": "ekiden.handoff.filters.transcript",
        "nest_history": "ekiden.handoff.filters.transcript",
        "redact": "ekiden.handoff.filters.redaction",
        "summarise": "ekiden.handoff.filters.summaries",
        "summarise_with": "ekiden.handoff.filters.summaries",
        "get_conversation_history_wrappers": "ekiden.handoff.filters.transcript",
        "reset_conversation_history_wrappers": "ekiden.handoff.filters.transcript",
        "set_conversation_history_wrappers": "ekiden.handoff.filters.transcript",
    },
)
