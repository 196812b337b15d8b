"""Extensions that are experimental in the SDK."""

from ekiden.compat.agents.extensions.experimental import codex
from ekiden.compat.agents.not_supported import placeholders

__all__ = ["codex", "hosted_multi_agent"]

__getattr__ = placeholders(__name__)
