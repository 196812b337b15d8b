"""What is said in a live session."""

from ekiden.integrations.realtime import RealtimeItem

__all__ = ["RealtimeItem"]
