"""`any-llm`'s model."""

from ekiden.compat.agents.models.other_providers import AnyLLMApi, AnyLLMModel
from ekiden.compat.agents.not_supported import placeholders

__all__ = ["AnyLLMApi", "AnyLLMModel"]

__getattr__ = placeholders(__name__)
