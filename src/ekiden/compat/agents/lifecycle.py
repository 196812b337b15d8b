"""Callbacks at the joints of a run."""

from ekiden.core.runs import AgentHooks as AgentHooks, RunHooks as RunHooks

AgentHooksBase = AgentHooks
RunHooksBase = RunHooks
