"""Hooks."""

from ekiden.core.hooks import AgentHooks, RunHooks

__all__ = ["AgentHooks", "RunHooks"]
