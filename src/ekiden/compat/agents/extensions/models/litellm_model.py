"""LiteLLM's model, without LiteLLM."""

from ekiden.compat.agents.models.other_providers import (
    InternalChatCompletionMessage,
    InternalToolCall,
    LitellmModel,
)
from ekiden.compat.agents.not_supported import placeholders

__all__ = ["InternalChatCompletionMessage", "InternalToolCall", "LitellmModel"]

__getattr__ = placeholders(__name__)
