"""Running agents."""

from ekiden.runtime import (
    AgentRunner,
    CallModelData,
    ModelInputData,
    RunConfig,
    Runner,
    set_default_agent_runner,
)

__all__ = [
    "AgentRunner",
    "CallModelData",
    "ModelInputData",
    "RunConfig",
    "Runner",
    "set_default_agent_runner",
]
