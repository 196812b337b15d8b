"""What is said in a live session."""

from ekiden.realtime import RealtimeItem

__all__ = ["RealtimeItem"]
