"""`any-llm`'s model."""

from ekiden.compat.agents.models.other_providers import (
    AnyLLMApi,
    AnyLLMModel,
    InternalChatCompletionMessage,
)
from ekiden.compat.agents.not_supported import placeholders

__all__ = ["AnyLLMApi", "AnyLLMModel", "InternalChatCompletionMessage"]

__getattr__ = placeholders(__name__)
