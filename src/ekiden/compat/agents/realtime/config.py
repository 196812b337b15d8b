"""Settings of live sessions; objects here, where this SDK has dictionaries."""

from ekiden.compat.agents.not_supported import placeholders
from ekiden.integrations.realtime import RealtimeModelSettings as RealtimeSessionModelSettings
from ekiden.integrations.realtime import RealtimeRunConfig

__all__ = ["RealtimeRunConfig", "RealtimeSessionModelSettings"]


__getattr__ = placeholders(__name__)
