"""Run items: the outputs of a run, each with the agent that produced it."""

from __future__ import annotations

import inspect
import weakref
from collections.abc import Iterable
from copy import deepcopy
from typing import Any, ClassVar, Literal, TypeAlias

from ekiden.core.conversation.model import (
    Item,
    function_output,
    to_input_item,
    to_item,
    user_message,
)

_SHELL_NOTES = frozenset({"status", "shell_output", "provider_data"})


class _AgentRef:
    """An attribute with a strong reference, which `RunItemBase.release_agent` makes weak."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._slot = f"_{name}"

    def __get__(self, item: RunItemBase, owner: type | None = None) -> Any:
        held = getattr(item, self._slot)
        return held() if isinstance(held, weakref.ref) else held

    def __set__(self, item: RunItemBase, value: Any) -> None:
        setattr(item, self._slot, value)


class RunItemBase:
    """An output of a run. `raw_item` is a plain item, or an object of the `openai` package.

    An item holds a reference to its agent, so that a result stays usable after the agents went out
    of scope. After `release_agent` the reference is weak, and `agent` becomes `None` when the agent
    is garbage-collected.
    """

    __slots__ = ("__weakref__", "_agent", "raw_item")
    type: ClassVar[str]
    agent: Any = _AgentRef()

    def __init__(self, agent: Any, raw_item: Any) -> None:
        self.agent = agent
        self.raw_item = raw_item

    def to_input_item(self) -> Item:
        """Return the item in the form of model input."""
        return to_input_item(self.raw_item)

    def release_agent(self) -> None:
        """Replace the reference to the agent by a weak reference."""
        self._release("_agent")

    def _release(self, slot: str) -> None:
        held = getattr(self, slot)
        if held is not None and not isinstance(held, weakref.ref):
            setattr(self, slot, weakref.ref(held))

    def __repr__(self) -> str:
        given = [
            each
            for each in inspect.signature(type(self)).parameters.values()
            if each.kind is not each.KEYWORD_ONLY
        ]
        needed = [each.name for each in given if each.default is each.empty]
        names = [*needed, "type", *(each.name for each in given if each.name not in needed)]
        fields = ", ".join(f"{name}={getattr(self, name)!r}" for name in names)
        return f"{type(self).__name__}({fields})"


def raw_field(raw_item: Any, name: str) -> Any:
    """Return a field of a raw item, which is a plain item or an object. Returns `None` if the field
    is missing."""
    if isinstance(raw_item, dict):
        return raw_item.get(name)
    return getattr(raw_item, name, None)


class MessageOutputItem(RunItemBase):
    """A message from the agent."""

    __slots__ = ()
    type: ClassVar[Literal["message_output_item"]] = "message_output_item"


class ReasoningItem(RunItemBase):
    """The model's reasoning, if the provider shows it."""

    __slots__ = ()
    type: ClassVar[Literal["reasoning_item"]] = "reasoning_item"


class _CallItem(RunItemBase):
    __slots__ = ()

    @property
    def call_id(self) -> str | None:
        """The id that connects a call and its output."""
        found: str | None = raw_field(self.raw_item, "call_id") or raw_field(self.raw_item, "id")
        return found


class ToolCallItem(_CallItem):
    """A tool call by the model."""

    __slots__ = ("description", "title")
    type: ClassVar[Literal["tool_call_item"]] = "tool_call_item"

    def __init__(
        self,
        agent: Any,
        raw_item: Any,
        description: str | None = None,
        title: str | None = None,
    ) -> None:
        super().__init__(agent, raw_item)
        self.description = description
        """For people; never sent to a model."""
        self.title = title

    @property
    def tool_name(self) -> str | None:
        """The name of the tool; `None` if the call has none."""
        name: str | None = raw_field(self.raw_item, "name")
        return name


class ToolCallOutputItem(_CallItem):
    """The output of a tool. `output` is the object that the tool returned."""

    __slots__ = ("output",)
    type: ClassVar[Literal["tool_call_output_item"]] = "tool_call_output_item"

    def __init__(self, agent: Any, raw_item: Any, output: Any = None) -> None:
        super().__init__(agent, raw_item)
        self.output = output

    def to_input_item(self) -> Item:
        """Return the item in the form of model input. For the output of a shell tool, the notes
        that Ekiden added are left out."""
        item = super().to_input_item()
        if item.get("type") == "shell_call_output":
            item = {key: part for key, part in item.items() if key not in _SHELL_NOTES}
        return item


class HandoffCallItem(_CallItem):
    """A transfer to another agent that the model requested."""

    __slots__ = ()
    type: ClassVar[Literal["handoff_call_item"]] = "handoff_call_item"


class HandoffOutputItem(_CallItem):
    """A completed transfer. `agent` is the agent that requested the transfer."""

    __slots__ = ("_source_agent", "_target_agent")
    type: ClassVar[Literal["handoff_output_item"]] = "handoff_output_item"
    source_agent: Any = _AgentRef()
    target_agent: Any = _AgentRef()

    def __init__(self, agent: Any, raw_item: Any, source_agent: Any, target_agent: Any) -> None:
        super().__init__(agent, raw_item)
        self.source_agent = source_agent
        self.target_agent = target_agent

    def release_agent(self) -> None:
        """Replace the references to the three agents by weak references."""
        for slot in ("_agent", "_source_agent", "_target_agent"):
            self._release(slot)


class ToolSearchCallItem(RunItemBase):
    """A search for tools by the model."""

    __slots__ = ()
    type: ClassVar[Literal["tool_search_call_item"]] = "tool_search_call_item"


class ToolSearchOutputItem(RunItemBase):
    """The tools that were found."""

    __slots__ = ()
    type: ClassVar[Literal["tool_search_output_item"]] = "tool_search_output_item"


class MCPListToolsItem(RunItemBase):
    """The tool list of an MCP server."""

    __slots__ = ()
    type: ClassVar[Literal["mcp_list_tools_item"]] = "mcp_list_tools_item"


class MCPApprovalRequestItem(RunItemBase):
    """An MCP tool call that needs approval."""

    __slots__ = ()
    type: ClassVar[Literal["mcp_approval_request_item"]] = "mcp_approval_request_item"


class MCPApprovalResponseItem(RunItemBase):
    """The approval or rejection of an MCP tool call."""

    __slots__ = ()
    type: ClassVar[Literal["mcp_approval_response_item"]] = "mcp_approval_response_item"


class ToolApprovalItem(_CallItem):
    """A tool call that waits for a person's approval. The call is not part of the conversation
    yet."""

    __slots__ = ("_tool_name",)
    type: ClassVar[Literal["tool_approval_item"]] = "tool_approval_item"

    def __init__(self, agent: Any, raw_item: Any, tool_name: str | None = None) -> None:
        super().__init__(agent, raw_item)
        self._tool_name = tool_name

    @property
    def tool_name(self) -> str | None:
        """The name that the creator of the item passed, or else the name in the call."""
        return self._tool_name or raw_field(self.raw_item, "name")


class CompactionItem(RunItemBase):
    """A compacted history that the provider created."""

    __slots__ = ()
    type: ClassVar[Literal["compaction_item"]] = "compaction_item"


RunItem: TypeAlias = (
    MessageOutputItem
    | ReasoningItem
    | ToolCallItem
    | ToolCallOutputItem
    | HandoffCallItem
    | HandoffOutputItem
    | ToolSearchCallItem
    | ToolSearchOutputItem
    | MCPListToolsItem
    | MCPApprovalRequestItem
    | MCPApprovalResponseItem
    | ToolApprovalItem
    | CompactionItem
)


class ItemHelpers:
    """Functions on raw items (plain or of the `openai` package) and run items."""

    @staticmethod
    def extract_last_content(message: Any) -> str:
        """The last part of a message, if the part is a text or a refusal; otherwise an empty
        text."""
        parts = _parts(message)
        if not parts:
            return ""
        kind = raw_field(parts[-1], "type")
        return raw_field(parts[-1], "refusal" if kind == "refusal" else "text") or ""

    @staticmethod
    def extract_last_text(message: Any) -> str | None:
        """The last part of a message if the part is a text; otherwise `None`."""
        parts = _parts(message)
        if not parts or raw_field(parts[-1], "type") != "output_text":
            return None
        text: str | None = raw_field(parts[-1], "text")
        return text

    @staticmethod
    def extract_text(message: Any) -> str | None:
        """All text of a message; `None` if the message has no text."""
        return _text(message) or None

    @staticmethod
    def extract_refusal(message: Any) -> str | None:
        """All refusals of a message; `None` if the message has no refusal."""
        parts = [part for part in _parts(message) if raw_field(part, "type") == "refusal"]
        return "".join(raw_field(part, "refusal") or "" for part in parts) or None

    @staticmethod
    def input_to_new_input_list(input: str | Iterable[Any]) -> list[Item]:
        """Return the input of a run as a new list. Changes of this list do not change the input."""
        if isinstance(input, str):
            return [user_message(input)]
        return [_plain(to_item(item)) for item in input]

    @staticmethod
    def text_message_output(message: MessageOutputItem) -> str:
        """All text of a message item."""
        return _text(message.raw_item)

    @staticmethod
    def text_message_outputs(items: Iterable[RunItem]) -> str:
        """All text of all messages among the items of a run."""
        return "".join(
            _text(item.raw_item) for item in items if isinstance(item, MessageOutputItem)
        )

    @staticmethod
    def tool_call_output_item(tool_call: Any, output: Any) -> Item:
        """Return the item that answers `tool_call`. A list of content parts stays a list; any other
        output becomes text."""
        structured = isinstance(output, str | list)
        return function_output(
            raw_field(tool_call, "call_id"), output if structured else str(output)
        )


def _parts(message: Any) -> list[Any]:
    """The parts of an output message; none for other items."""
    if raw_field(message, "type") != "message":
        return []
    content = raw_field(message, "content")
    if isinstance(content, str):
        return [{"type": "output_text", "text": content}]
    return content if isinstance(content, list) else []


def _text(message: Any) -> str:
    parts = [part for part in _parts(message) if raw_field(part, "type") == "output_text"]
    return "".join(raw_field(part, "text") or "" for part in parts)


def _plain(value: Any) -> Any:
    """A deep copy in which iterators become lists; pydantic leaves iterators in typed dicts."""
    if isinstance(value, dict):
        return {key: _plain(part) for key, part in value.items()}
    if isinstance(value, str | bytes | int | float) or value is None:
        return value
    if isinstance(value, Iterable):
        return [_plain(part) for part in value]
    return deepcopy(value)
