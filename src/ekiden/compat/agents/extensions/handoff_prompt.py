"""What agents are told about handoffs."""

from ekiden.handoff import RECOMMENDED_PROMPT_PREFIX, prompt_with_handoff_instructions

__all__ = ["RECOMMENDED_PROMPT_PREFIX", "prompt_with_handoff_instructions"]
