"""The role of a realtime model."""

from ekiden.integrations.realtime import RealtimeModel

__all__ = ["RealtimeModel"]
