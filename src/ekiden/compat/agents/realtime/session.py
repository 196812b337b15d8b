"""A live session."""

from ekiden.realtime import RealtimeSession

__all__ = ["RealtimeSession"]
