"""Codex, OpenAI's coding agent, as a subprocess and as a tool; experimental in the SDK."""

from ekiden.compat.agents.extensions.experimental.codex.codex import (
    Codex,
)
from ekiden.compat.agents.extensions.experimental.codex.codex_options import (
    CodexOptions,
)
from ekiden.compat.agents.extensions.experimental.codex.codex_tool import (
    CodexToolOptions,
    CodexToolResult,
    CodexToolStreamEvent,
    OutputSchemaDescriptor,
    codex_tool,
)
from ekiden.compat.agents.extensions.experimental.codex.events import (
    ItemCompletedEvent,
    ItemStartedEvent,
    ItemUpdatedEvent,
    ThreadError,
    ThreadErrorEvent,
    ThreadEvent,
    ThreadStartedEvent,
    TurnCompletedEvent,
    TurnFailedEvent,
    TurnStartedEvent,
    Usage,
)
from ekiden.compat.agents.extensions.experimental.codex.items import (
    AgentMessageItem,
    CommandExecutionItem,
    ErrorItem,
    FileChangeItem,
    FileUpdateChange,
    McpToolCallError,
    McpToolCallItem,
    McpToolCallResult,
    ReasoningItem,
    ThreadItem,
    TodoItem,
    TodoListItem,
    WebSearchItem,
)
from ekiden.compat.agents.extensions.experimental.codex.thread import (
    Input,
    RunResult,
    RunStreamedResult,
    Thread,
    Turn,
    UserInput,
)
from ekiden.compat.agents.extensions.experimental.codex.thread_options import (
    ApprovalMode,
    ModelReasoningEffort,
    SandboxMode,
    ThreadOptions,
    WebSearchMode,
)
from ekiden.compat.agents.extensions.experimental.codex.turn_options import (
    TurnOptions,
)

__all__ = [
    "AgentMessageItem",
    "ApprovalMode",
    "Codex",
    "CodexOptions",
    "CodexToolOptions",
    "CodexToolResult",
    "CodexToolStreamEvent",
    "CommandExecutionItem",
    "ErrorItem",
    "FileChangeItem",
    "FileUpdateChange",
    "Input",
    "ItemCompletedEvent",
    "ItemStartedEvent",
    "ItemUpdatedEvent",
    "McpToolCallError",
    "McpToolCallItem",
    "McpToolCallResult",
    "ModelReasoningEffort",
    "OutputSchemaDescriptor",
    "ReasoningItem",
    "RunResult",
    "RunStreamedResult",
    "SandboxMode",
    "Thread",
    "ThreadError",
    "ThreadErrorEvent",
    "ThreadEvent",
    "ThreadItem",
    "ThreadOptions",
    "ThreadStartedEvent",
    "TodoItem",
    "TodoListItem",
    "Turn",
    "TurnCompletedEvent",
    "TurnFailedEvent",
    "TurnOptions",
    "TurnStartedEvent",
    "Usage",
    "UserInput",
    "WebSearchItem",
    "WebSearchMode",
    "codex_tool",
]
