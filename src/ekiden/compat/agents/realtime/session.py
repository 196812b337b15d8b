"""A live session."""

from ekiden.integrations.realtime import RealtimeSession

__all__ = ["RealtimeSession"]
