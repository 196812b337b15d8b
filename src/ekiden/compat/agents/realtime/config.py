"""Settings of live sessions; objects here, where this SDK has dictionaries."""

from ekiden.realtime import RealtimeModelSettings as RealtimeSessionModelSettings
from ekiden.realtime import RealtimeRunConfig

__all__ = ["RealtimeRunConfig", "RealtimeSessionModelSettings"]
