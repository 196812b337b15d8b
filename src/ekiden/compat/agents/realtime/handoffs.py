"""Handoffs in live sessions."""

from ekiden.integrations.realtime import collect_enabled_handoffs, realtime_handoff

__all__ = ["collect_enabled_handoffs", "realtime_handoff"]
