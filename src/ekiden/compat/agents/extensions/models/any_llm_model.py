"""`any-llm`'s model."""

from ekiden.compat.agents.models.other_providers import (
    AnyLLMApi as AnyLLMApi,
    AnyLLMModel as AnyLLMModel,
    InternalChatCompletionMessage as InternalChatCompletionMessage,
)
from ekiden.compat.agents.not_supported import placeholders

__getattr__ = placeholders(__name__)
