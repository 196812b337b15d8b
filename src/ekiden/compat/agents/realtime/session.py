"""A live session."""

from ekiden.compat.agents.not_supported import placeholders
from ekiden.integrations.realtime import RealtimeSession

__all__ = ["RealtimeSession"]


__getattr__ = placeholders(__name__)
