"""Codex, OpenAI's coding agent, as a subprocess and as a tool; experimental in the SDK."""

from ekiden.compat.agents.extensions.experimental.codex.codex import Codex as Codex
from ekiden.compat.agents.extensions.experimental.codex.codex_options import (
    CodexOptions as CodexOptions,
)
from ekiden.compat.agents.extensions.experimental.codex.codex_tool import (
    CodexToolOptions as CodexToolOptions,
    CodexToolResult as CodexToolResult,
    CodexToolStreamEvent as CodexToolStreamEvent,
    OutputSchemaDescriptor as OutputSchemaDescriptor,
    codex_tool as codex_tool,
)
from ekiden.compat.agents.extensions.experimental.codex.events import (
    ItemCompletedEvent as ItemCompletedEvent,
    ItemStartedEvent as ItemStartedEvent,
    ItemUpdatedEvent as ItemUpdatedEvent,
    ThreadError as ThreadError,
    ThreadErrorEvent as ThreadErrorEvent,
    ThreadEvent as ThreadEvent,
    ThreadStartedEvent as ThreadStartedEvent,
    TurnCompletedEvent as TurnCompletedEvent,
    TurnFailedEvent as TurnFailedEvent,
    TurnStartedEvent as TurnStartedEvent,
    Usage as Usage,
)
from ekiden.compat.agents.extensions.experimental.codex.items import (
    AgentMessageItem as AgentMessageItem,
    CommandExecutionItem as CommandExecutionItem,
    ErrorItem as ErrorItem,
    FileChangeItem as FileChangeItem,
    FileUpdateChange as FileUpdateChange,
    McpToolCallError as McpToolCallError,
    McpToolCallItem as McpToolCallItem,
    McpToolCallResult as McpToolCallResult,
    ReasoningItem as ReasoningItem,
    ThreadItem as ThreadItem,
    TodoItem as TodoItem,
    TodoListItem as TodoListItem,
    WebSearchItem as WebSearchItem,
)
from ekiden.compat.agents.extensions.experimental.codex.thread import (
    Input as Input,
    RunResult as RunResult,
    RunStreamedResult as RunStreamedResult,
    Thread as Thread,
    Turn as Turn,
    UserInput as UserInput,
)
from ekiden.compat.agents.extensions.experimental.codex.thread_options import (
    ApprovalMode as ApprovalMode,
    ModelReasoningEffort as ModelReasoningEffort,
    SandboxMode as SandboxMode,
    ThreadOptions as ThreadOptions,
    WebSearchMode as WebSearchMode,
)
from ekiden.compat.agents.extensions.experimental.codex.turn_options import (
    TurnOptions as TurnOptions,
)
from ekiden.compat.agents.not_supported import names_of

__all__ = names_of(__name__)
