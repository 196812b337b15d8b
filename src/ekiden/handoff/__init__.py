"""Handoffs between agents: making them, offering them, and choosing what the target sees."""

from typing import TYPE_CHECKING

from ekiden.core.handoff import Handoff, HandoffInputData, HandoffInputFilter
from ekiden.core.lazy import lazy_names
from ekiden.handoff.collisions import resolve_tool_name_collisions
from ekiden.handoff.offers import default_handoff, get_handoffs
from ekiden.handoff.prompt import (
    RECOMMENDED_PROMPT_PREFIX,
    prompt_with_handoff_instructions,
    received_block,
)
from ekiden.handoff.tool import BEST, PERSON, handoff, make_terms, person

if TYPE_CHECKING:
    from ekiden.handoff.declared import declared_handoff, parse_filter
    from ekiden.handoff.filter_report import FilterReport, FilterRow, NewRow
    from ekiden.handoff.filters import (
        HandoffFilter,
        compose,
        keep_first_and_last,
        keep_last,
        remove_all_tools,
        shorten_tool_outputs,
    )
    from ekiden.handoff.history import (
        HistoryMapper,
        default_handoff_history_mapper,
        nest_handoff_history,
        nest_history,
    )
    from ekiden.handoff.redaction import redact
    from ekiden.handoff.summaries import SUMMARY_INSTRUCTIONS, Summariser, summarise, summarise_with
    from ekiden.handoff.transcript import (
        get_conversation_history_wrappers,
        reset_conversation_history_wrappers,
        set_conversation_history_wrappers,
    )

__all__ = [
    "BEST",
    "PERSON",
    "RECOMMENDED_PROMPT_PREFIX",
    "SUMMARY_INSTRUCTIONS",
    "FilterReport",
    "FilterRow",
    "Handoff",
    "HandoffFilter",
    "HandoffInputData",
    "HandoffInputFilter",
    "HistoryMapper",
    "NewRow",
    "Summariser",
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
        "FilterReport": "ekiden.handoff.filter_report",
        "FilterRow": "ekiden.handoff.filter_report",
        "NewRow": "ekiden.handoff.filter_report",
        "HandoffFilter": "ekiden.handoff.filters",
        "compose": "ekiden.handoff.filters",
        "keep_first_and_last": "ekiden.handoff.filters",
        "keep_last": "ekiden.handoff.filters",
        "remove_all_tools": "ekiden.handoff.filters",
        "shorten_tool_outputs": "ekiden.handoff.filters",
        "HistoryMapper": "ekiden.handoff.history",
        "default_handoff_history_mapper": "ekiden.handoff.history",
        "nest_handoff_history": "ekiden.handoff.history",
        "nest_history": "ekiden.handoff.history",
        "redact": "ekiden.handoff.redaction",
        "SUMMARY_INSTRUCTIONS": "ekiden.handoff.summaries",
        "Summariser": "ekiden.handoff.summaries",
        "summarise": "ekiden.handoff.summaries",
        "summarise_with": "ekiden.handoff.summaries",
        "get_conversation_history_wrappers": "ekiden.handoff.transcript",
        "reset_conversation_history_wrappers": "ekiden.handoff.transcript",
        "set_conversation_history_wrappers": "ekiden.handoff.transcript",
    },
)
