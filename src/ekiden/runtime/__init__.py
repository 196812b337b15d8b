"""The runtime: `advance` and the doors to it."""

from ekiden.runtime.advance import advance
from ekiden.runtime.circumstances import Circumstances
from ekiden.runtime.code_agent import CodeContext, HandOff
from ekiden.runtime.config import CallModelData, Limits, ModelInputData, RunConfig
from ekiden.runtime.opening import submit, taken_up
from ekiden.runtime.results import RunResult
from ekiden.runtime.runner import (
    AgentRunner,
    Runner,
    get_default_agent_runner,
    set_default_agent_runner,
)
from ekiden.runtime.state import RunState
from ekiden.runtime.streaming import (
    AgentUpdatedStreamEvent,
    RawResponsesStreamEvent,
    RunItemStreamEvent,
    RunResultStreaming,
    StreamEvent,
)

__all__ = [
    "AgentRunner",
    "AgentUpdatedStreamEvent",
    "CallModelData",
    "Circumstances",
    "CodeContext",
    "HandOff",
    "Limits",
    "ModelInputData",
    "RawResponsesStreamEvent",
    "RunConfig",
    "RunItemStreamEvent",
    "RunResult",
    "RunResultStreaming",
    "RunState",
    "Runner",
    "StreamEvent",
    "advance",
    "get_default_agent_runner",
    "set_default_agent_runner",
    "submit",
    "taken_up",
]
