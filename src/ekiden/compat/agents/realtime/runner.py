"""Starting live sessions."""

from ekiden.realtime import RealtimeRunner

__all__ = ["RealtimeRunner"]
