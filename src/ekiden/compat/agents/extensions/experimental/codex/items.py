"""What Codex reports of a turn: messages, commands, file changes, searches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, asdict, dataclass, field, fields
from typing import Any, Literal, TypeAlias, TypeGuard, TypeVar, get_args

CommandExecutionStatus: TypeAlias = Literal["in_progress", "completed", "failed"]
McpToolCallStatus: TypeAlias = Literal["in_progress", "completed", "failed"]
PatchChangeKind: TypeAlias = Literal["add", "delete", "update"]
PatchApplyStatus: TypeAlias = Literal["completed", "failed"]


class Payload:
    """A value of Codex's JSON stream; its fields can also be read by key."""

    def __getitem__(self, key: str) -> Any:
        if key not in self:
            raise KeyError(key)
        return getattr(self, key)

    def __contains__(self, key: object) -> bool:
        return any(each.name == key for each in fields(self))  # type: ignore[arg-type]

    def get(self, key: str, default: Any = None) -> Any:
        """The field, or `default` if there is none of this name."""
        return getattr(self, key) if key in self else default

    def keys(self) -> Iterable[str]:
        """The names of the fields."""
        return [each.name for each in fields(self)]  # type: ignore[arg-type]

    def as_dict(self) -> dict[str, Any]:
        """The value as JSON."""
        return asdict(self)  # type: ignore[call-overload, no-any-return]


_P = TypeVar("_P", bound=Payload)


def _type(name: str) -> Any:
    return field(default=name, init=False)


@dataclass(frozen=True)
class CommandExecutionItem(Payload):
    """A command that Codex runs."""

    id: str
    command: str
    status: CommandExecutionStatus
    aggregated_output: str = ""
    exit_code: int | None = None
    type: Literal["command_execution"] = _type("command_execution")


@dataclass(frozen=True)
class FileUpdateChange(Payload):
    """One file of a change."""

    path: str
    kind: PatchChangeKind


@dataclass(frozen=True)
class FileChangeItem(Payload):
    """Files that Codex changed."""

    id: str
    changes: list[FileUpdateChange]
    status: PatchApplyStatus
    type: Literal["file_change"] = _type("file_change")


@dataclass(frozen=True)
class McpToolCallResult(Payload):
    """The result of a tool of an MCP server."""

    content: list[Any]
    structured_content: Any


@dataclass(frozen=True)
class McpToolCallError(Payload):
    """Why a tool of an MCP server failed."""

    message: str


@dataclass(frozen=True)
class McpToolCallItem(Payload):
    """A call of a tool of an MCP server."""

    id: str
    server: str
    tool: str
    arguments: Any
    status: McpToolCallStatus
    result: McpToolCallResult | None = None
    error: McpToolCallError | None = None
    type: Literal["mcp_tool_call"] = _type("mcp_tool_call")


@dataclass(frozen=True)
class AgentMessageItem(Payload):
    """A message of Codex. The last message of a turn is the answer."""

    id: str
    text: str
    type: Literal["agent_message"] = _type("agent_message")


@dataclass(frozen=True)
class ReasoningItem(Payload):
    """A summary of Codex's reasoning."""

    id: str
    text: str
    type: Literal["reasoning"] = _type("reasoning")


@dataclass(frozen=True)
class WebSearchItem(Payload):
    """A web search."""

    id: str
    query: str
    type: Literal["web_search"] = _type("web_search")


@dataclass(frozen=True)
class ErrorItem(Payload):
    """An error that does not end the turn."""

    id: str
    message: str
    type: Literal["error"] = _type("error")


@dataclass(frozen=True)
class TodoItem(Payload):
    """A step of Codex's plan."""

    text: str
    completed: bool


@dataclass(frozen=True)
class TodoListItem(Payload):
    """Codex's plan."""

    id: str
    items: list[TodoItem]
    type: Literal["todo_list"] = _type("todo_list")


@dataclass(frozen=True)
class UnknownItem(Payload):
    """An item of a newer Codex."""

    type: str
    payload: Mapping[str, Any] = field(default_factory=dict)
    id: str | None = None


ThreadItem: TypeAlias = (
    AgentMessageItem
    | ReasoningItem
    | CommandExecutionItem
    | FileChangeItem
    | McpToolCallItem
    | WebSearchItem
    | TodoListItem
    | ErrorItem
    | UnknownItem
)

_KINDS: dict[str, type[Payload]] = {
    each.type: each for each in get_args(ThreadItem) if each is not UnknownItem
}
_ABSENT: Mapping[str, Any] = {
    "text": "",
    "query": "",
    "message": "",
    "arguments": None,
    "structured_content": None,
    "completed": False,
    "content": (),
    "changes": (),
    "items": (),
}
"""Values of required fields that Codex leaves out."""


def read(kind: type[_P], raw: Any, parts: Mapping[str, Callable[[Any], Any]] | None = None) -> _P:
    """A value of `kind` from JSON; `parts` read the fields that are not plain.

    `TypeError` for anything but a mapping, `KeyError` if a required field is missing.
    """
    if isinstance(raw, kind):
        return raw
    if not isinstance(raw, Mapping):
        raise TypeError(f"{kind.__name__} is read from a mapping, not {type(raw).__name__}")
    given: dict[str, Any] = {}
    for each in fields(kind):  # type: ignore[arg-type]
        name, is_required = each.name, each.default is MISSING
        if not each.init or (not is_required and raw.get(name) is None):
            continue
        value = raw.get(name, _ABSENT[name]) if name in _ABSENT else raw[name]
        part = (parts or {}).get(name)
        given[name] = value if part is None else part(value)
    return kind(**given)


def _list_of(kind: type[_P]) -> Callable[[Any], list[_P]]:
    return lambda values: [read(kind, each) for each in values]


_PARTS: Mapping[str, Callable[[Any], Any]] = {
    "changes": _list_of(FileUpdateChange),
    "items": _list_of(TodoItem),
    "result": lambda raw: read(McpToolCallResult, raw, {"content": list}),
    "error": lambda raw: read(McpToolCallError, raw),
}


def coerce_thread_item(raw: ThreadItem | Mapping[str, Any]) -> ThreadItem:
    """An item from JSON; an unknown type is kept with its `payload`."""
    if isinstance(raw, Payload):
        return raw
    if not isinstance(raw, Mapping):
        raise TypeError(f"an item is read from a mapping, not {type(raw).__name__}")
    kind = _KINDS.get(str(raw.get("type")))
    if kind is None:
        name = "unknown" if raw.get("type") is None else raw["type"]
        return UnknownItem(type=name, payload=dict(raw), id=raw.get("id"))
    item: Any = read(kind, {"id": "", **raw} if kind is ErrorItem else raw, _PARTS)
    return item  # type: ignore[no-any-return]


def is_agent_message_item(item: ThreadItem) -> TypeGuard[AgentMessageItem]:
    """Whether the item is a message of Codex."""
    return isinstance(item, AgentMessageItem)
