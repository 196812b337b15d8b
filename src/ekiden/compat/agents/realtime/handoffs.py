"""Handoffs in live sessions."""

from ekiden.compat.agents.not_supported import placeholders
from ekiden.integrations.realtime import collect_enabled_handoffs, realtime_handoff

__all__ = ["collect_enabled_handoffs", "realtime_handoff"]


__getattr__ = placeholders(__name__)
