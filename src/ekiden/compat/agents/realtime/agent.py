"""Agents of live sessions."""

from ekiden.integrations.realtime import RealtimeAgent, RealtimeAgentHooks, RealtimeRunHooks

__all__ = ["RealtimeAgent", "RealtimeAgentHooks", "RealtimeRunHooks"]
