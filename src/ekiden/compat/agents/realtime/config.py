"""Settings of live sessions; objects here, where this SDK has dictionaries."""

from ekiden.integrations.realtime import RealtimeModelSettings as RealtimeSessionModelSettings
from ekiden.integrations.realtime import RealtimeRunConfig

__all__ = ["RealtimeRunConfig", "RealtimeSessionModelSettings"]
