"""The role of a realtime model."""

from ekiden.compat.agents.not_supported import placeholders
from ekiden.integrations.realtime import RealtimeModel

__all__ = ["RealtimeModel"]


__getattr__ = placeholders(__name__)
