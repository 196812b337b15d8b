"""What is said in a live session."""

from ekiden.compat.agents.not_supported import placeholders
from ekiden.integrations.realtime import RealtimeItem

__all__ = ["RealtimeItem"]


__getattr__ = placeholders(__name__)
