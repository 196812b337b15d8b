"""LiteLLM's model, without LiteLLM."""

from ekiden.compat.agents.models.other_providers import (
    InternalChatCompletionMessage as InternalChatCompletionMessage,
    InternalToolCall as InternalToolCall,
    LitellmModel as LitellmModel,
)
from ekiden.compat.agents.not_supported import placeholders

__getattr__ = placeholders(__name__)
