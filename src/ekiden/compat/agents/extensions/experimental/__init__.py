"""Extensions that are experimental in the SDK."""

from ekiden.compat.agents.extensions.experimental import codex as codex
from ekiden.compat.agents.not_supported import names_of, placeholders

__all__ = names_of(__name__)

__getattr__ = placeholders(__name__)
