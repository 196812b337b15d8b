"""Finds models by ``provider/model``."""

from ekiden.compat.agents.models.other_providers import AnyLLMProvider as AnyLLMProvider
from ekiden.compat.agents.not_supported import placeholders

DEFAULT_MODEL = "openai/gpt-4.1"
__getattr__ = placeholders(__name__)
