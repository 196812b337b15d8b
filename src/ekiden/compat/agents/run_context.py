"""What hooks and callbacks are given."""

from ekiden.core.context import AgentHookContext, RunContextWrapper, TContext

__all__ = ["AgentHookContext", "RunContextWrapper", "TContext"]
