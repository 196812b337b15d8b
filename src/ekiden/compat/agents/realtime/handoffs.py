"""Handoffs in live sessions."""

from ekiden.realtime import collect_enabled_handoffs, realtime_handoff

__all__ = ["collect_enabled_handoffs", "realtime_handoff"]
