"""Callbacks at the joints of a run."""

from ekiden.core.hooks import AgentHooks, RunHooks

__all__ = ["AgentHooks", "AgentHooksBase", "RunHooks", "RunHooksBase"]

AgentHooksBase = AgentHooks
RunHooksBase = RunHooks
