"""The role of a realtime model."""

from ekiden.realtime import RealtimeModel

__all__ = ["RealtimeModel"]
