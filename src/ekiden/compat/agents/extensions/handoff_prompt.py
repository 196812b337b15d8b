"""What agents are told about handoffs."""

from ekiden.handoff import (
    RECOMMENDED_PROMPT_PREFIX as RECOMMENDED_PROMPT_PREFIX,
    prompt_with_handoff_instructions as prompt_with_handoff_instructions,
)
