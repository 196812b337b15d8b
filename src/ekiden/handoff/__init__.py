"""Handoffs between agents: definitions, transfer tools, and filters for the target's view."""

from typing import TYPE_CHECKING

from ekiden.core.handoffs import (
    Handoff as Handoff,
    HandoffInputData as HandoffInputData,
    HandoffInputFilter as HandoffInputFilter,
)
from ekiden.core.integrations.lazy import lazy_names
from ekiden.handoff.offers import (
    RECOMMENDED_PROMPT_PREFIX as RECOMMENDED_PROMPT_PREFIX,
    default_handoff as default_handoff,
    get_handoffs as get_handoffs,
    prompt_with_handoff_instructions as prompt_with_handoff_instructions,
    received_block as received_block,
    resolve_tool_name_collisions as resolve_tool_name_collisions,
)
from ekiden.handoff.tool import (
    BEST as BEST,
    PERSON as PERSON,
    handoff as handoff,
    make_terms as make_terms,
    person as person,
)

if TYPE_CHECKING:
    from ekiden.handoff.declared import (
        declared_handoff as declared_handoff,
        parse_filter as parse_filter,
    )
    from ekiden.handoff.filters import (
        HandoffFilter as HandoffFilter,
        compose as compose,
        keep_first_and_last as keep_first_and_last,
        keep_last as keep_last,
        remove_all_tools as remove_all_tools,
        shorten_tool_outputs as shorten_tool_outputs,
    )
    from ekiden.handoff.redaction import redact as redact
    from ekiden.handoff.report import FilterReport as FilterReport
    from ekiden.handoff.summaries import (
        summarise as summarise,
        summarise_with as summarise_with,
    )
    from ekiden.handoff.transcript import (
        HistoryMapper as HistoryMapper,
        default_handoff_history_mapper as default_handoff_history_mapper,
        get_conversation_history_wrappers as get_conversation_history_wrappers,
        nest_handoff_history as nest_handoff_history,
        nest_history as nest_history,
        reset_conversation_history_wrappers as reset_conversation_history_wrappers,
        set_conversation_history_wrappers as set_conversation_history_wrappers,
    )

__getattr__ = lazy_names(__name__)
