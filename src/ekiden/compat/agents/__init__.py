"""The module tree of the OpenAI Agents SDK over Ekiden's own objects, for what Ekiden has."""

from ekiden.compat.agents.agent import Agent
from ekiden.compat.agents.exceptions import (
    AgentsException,
    MaxTurnsExceeded,
    ModelBehaviorError,
    ToolTimeoutError,
    UserError,
)
from ekiden.compat.agents.handoffs import (
    Handoff,
    HandoffHistoryMapper,
    HandoffInputData,
    HandoffInputFilter,
    default_handoff_history_mapper,
    get_conversation_history_wrappers,
    handoff,
    nest_handoff_history,
    reset_conversation_history_wrappers,
    set_conversation_history_wrappers,
)
from ekiden.compat.agents.items import (
    CompactionItem,
    HandoffCallItem,
    HandoffOutputItem,
    ItemHelpers,
    MCPApprovalRequestItem,
    MCPApprovalResponseItem,
    MCPListToolsItem,
    MessageOutputItem,
    ModelResponse,
    ReasoningItem,
    RunItem,
    ToolApprovalItem,
    ToolCallItem,
    ToolCallOutputItem,
    ToolSearchCallItem,
    ToolSearchOutputItem,
    TResponseInputItem,
)
from ekiden.compat.agents.lifecycle import AgentHooks, RunHooks
from ekiden.compat.agents.model_settings import ModelSettings
from ekiden.compat.agents.result import RunResult, RunResultStreaming
from ekiden.compat.agents.run import RunConfig, Runner
from ekiden.compat.agents.run_context import AgentHookContext, RunContextWrapper, TContext
from ekiden.compat.agents.stream_events import (
    AgentUpdatedStreamEvent,
    RawResponsesStreamEvent,
    RunItemStreamEvent,
    StreamEvent,
)
from ekiden.compat.agents.tool import (
    FunctionTool,
    Tool,
    default_tool_error_function,
    function_tool,
)
from ekiden.compat.agents.tool_context import ToolContext
from ekiden.compat.agents.usage import Usage

__all__ = [
    "Agent",
    "AgentHookContext",
    "AgentHooks",
    "AgentUpdatedStreamEvent",
    "AgentsException",
    "CompactionItem",
    "FunctionTool",
    "Handoff",
    "HandoffCallItem",
    "HandoffHistoryMapper",
    "HandoffInputData",
    "HandoffInputFilter",
    "HandoffOutputItem",
    "ItemHelpers",
    "MCPApprovalRequestItem",
    "MCPApprovalResponseItem",
    "MCPListToolsItem",
    "MaxTurnsExceeded",
    "MessageOutputItem",
    "ModelBehaviorError",
    "ModelResponse",
    "ModelSettings",
    "RawResponsesStreamEvent",
    "ReasoningItem",
    "RunConfig",
    "RunContextWrapper",
    "RunHooks",
    "RunItem",
    "RunItemStreamEvent",
    "RunResult",
    "RunResultStreaming",
    "Runner",
    "StreamEvent",
    "TContext",
    "TResponseInputItem",
    "Tool",
    "ToolApprovalItem",
    "ToolCallItem",
    "ToolCallOutputItem",
    "ToolContext",
    "ToolSearchCallItem",
    "ToolSearchOutputItem",
    "ToolTimeoutError",
    "Usage",
    "UserError",
    "default_handoff_history_mapper",
    "default_tool_error_function",
    "function_tool",
    "get_conversation_history_wrappers",
    "handoff",
    "nest_handoff_history",
    "reset_conversation_history_wrappers",
    "set_conversation_history_wrappers",
]
