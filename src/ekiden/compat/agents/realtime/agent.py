"""Agents of live sessions."""

from ekiden.realtime import RealtimeAgent, RealtimeAgentHooks, RealtimeRunHooks

__all__ = ["RealtimeAgent", "RealtimeAgentHooks", "RealtimeRunHooks"]
