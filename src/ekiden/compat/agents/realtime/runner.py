"""Starting live sessions."""

from ekiden.integrations.realtime import RealtimeRunner

__all__ = ["RealtimeRunner"]
