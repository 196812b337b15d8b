"""The runtime: `advance` runs a session step by step, and `Runner` calls it."""

from typing import TYPE_CHECKING

from ekiden.core.integrations.lazy import lazy_names
from ekiden.runtime.config import (
    CallModelData as CallModelData,
    Limits as Limits,
    ModelInputData as ModelInputData,
    Price as Price,
    RunConfig as RunConfig,
    RunOptions as RunOptions,
)
from ekiden.runtime.kinds.registry import (
    AgentKind as AgentKind,
    register_agent_kind as register_agent_kind,
)
from ekiden.runtime.loop.advance import advance as advance
from ekiden.runtime.loop.claim import resumed_run as resumed_run, submit as submit
from ekiden.runtime.results import RunResult as RunResult
from ekiden.runtime.runner import Runner as Runner
from ekiden.runtime.state.state import RunState as RunState

if TYPE_CHECKING:
    from ekiden.runtime.handoff.rollback import Rollback as Rollback
    from ekiden.runtime.handoffs import (
        HandoffController as HandoffController,
        HandoffExecutor as HandoffExecutor,
    )
    from ekiden.runtime.kinds.code_agent import (
        CodeContext as CodeContext,
        HandOff as HandOff,
        run_code as run_code,
    )
    from ekiden.runtime.stream import (
        AgentUpdatedStreamEvent as AgentUpdatedStreamEvent,
        RawResponsesStreamEvent as RawResponsesStreamEvent,
        RunItemStreamEvent as RunItemStreamEvent,
        RunResultStreaming as RunResultStreaming,
        StreamEvent as StreamEvent,
    )

__getattr__ = lazy_names(__name__)
