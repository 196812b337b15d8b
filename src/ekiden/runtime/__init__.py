"""The runtime: `advance` runs a session step by step, and `Runner` calls it."""

from typing import TYPE_CHECKING

from ekiden.core.integrations.lazy import lazy_names
from ekiden.runtime.config import (
    CallModelData,
    Limits,
    ModelInputData,
    Price,
    RunConfig,
    RunOptions,
)
from ekiden.runtime.kinds.registry import AgentKind, register_agent_kind
from ekiden.runtime.loop.advance import advance
from ekiden.runtime.loop.claim import resumed_run, submit
from ekiden.runtime.results import RunResult
from ekiden.runtime.runner import Runner
from ekiden.runtime.state.state import RunState

if TYPE_CHECKING:
    from ekiden.runtime.agreements import HandoffExecutor
    from ekiden.runtime.handoff.rollback import Rollback
    from ekiden.runtime.handoffs import HandoffController
    from ekiden.runtime.kinds.code_agent import CodeContext, HandOff, run_code
    from ekiden.runtime.stream import (
        AgentUpdatedStreamEvent,
        RawResponsesStreamEvent,
        RunItemStreamEvent,
        RunResultStreaming,
        StreamEvent,
    )

__all__ = [
    "AgentKind",
    "AgentUpdatedStreamEvent",
    "CallModelData",
    "CodeContext",
    "HandOff",
    "HandoffController",
    "HandoffExecutor",
    "Limits",
    "ModelInputData",
    "Price",
    "RawResponsesStreamEvent",
    "Rollback",
    "RunConfig",
    "RunItemStreamEvent",
    "RunOptions",
    "RunResult",
    "RunResultStreaming",
    "RunState",
    "Runner",
    "StreamEvent",
    "advance",
    "register_agent_kind",
    "resumed_run",
    "run_code",
    "submit",
]

__getattr__ = lazy_names(
    __name__,
    {
        "AgentUpdatedStreamEvent": "ekiden.runtime.stream",
        "CodeContext": "ekiden.runtime.kinds.code_agent",
        "HandOff": "ekiden.runtime.kinds.code_agent",
        "HandoffController": "ekiden.runtime.handoffs",
        "HandoffExecutor": "ekiden.runtime.agreements",
        "Rollback": "ekiden.runtime.handoff.rollback",
        "RawResponsesStreamEvent": "ekiden.runtime.stream",
        "RunItemStreamEvent": "ekiden.runtime.stream",
        "RunResultStreaming": "ekiden.runtime.stream",
        "StreamEvent": "ekiden.runtime.stream",
        "run_code": "ekiden.runtime.kinds.code_agent",
    },
)
