"""Items: what goes into a model, what comes out of it, and what a run produced."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, Literal, NotRequired, TypeAlias
from uuid import uuid4

from openai.types.responses import (
    Response,
    ResponseInputItemParam,
    ResponseOutputItem,
    ResponseStreamEvent,
)
from pydantic import BaseModel, TypeAdapter, ValidationError, model_validator
from typing_extensions import TypedDict

from ekiden.compat.agents.not_supported import placeholders
from ekiden.compat.agents.usage import Usage
from ekiden.core.conversation import run_items as native
from ekiden.core.conversation.model import Item, is_message, to_input_item, to_item
from ekiden.core.conversation.run_items import (
    CompactionItem as CompactionItem,
    HandoffCallItem as HandoffCallItem,
    HandoffOutputItem as HandoffOutputItem,
    MCPApprovalRequestItem as MCPApprovalRequestItem,
    MCPApprovalResponseItem as MCPApprovalResponseItem,
    MCPListToolsItem as MCPListToolsItem,
    MessageOutputItem as MessageOutputItem,
    ReasoningItem as ReasoningItem,
    RunItemBase as RunItemBase,
    ToolSearchCallItem as ToolSearchCallItem,
    ToolSearchOutputItem as ToolSearchOutputItem,
    raw_field,
)
from ekiden.tools.output import output_text

TResponse: TypeAlias = Response
TResponseInputItem: TypeAlias = ResponseInputItemParam
TResponseOutputItem: TypeAlias = ResponseOutputItem
TResponseStreamEvent: TypeAlias = ResponseStreamEvent
ToolCallItemTypes: TypeAlias = Any
ToolCallOutputTypes: TypeAlias = Any


class InputItem(RunItemBase):
    """Input that was added during the run."""

    __slots__ = ("input_id",)
    type: ClassVar[Literal["input_item"]] = "input_item"

    def __init__(self, agent: Any, raw_item: Any, input_id: str | None = None) -> None:
        super().__init__(agent, raw_item)
        self.input_id = input_id or uuid4().hex


class ToolCallItem(native.ToolCallItem):
    """A tool call of the model."""

    __slots__ = ("tool_origin",)

    def __init__(
        self,
        agent: Any,
        raw_item: Any,
        description: str | None = None,
        title: str | None = None,
        tool_origin: Any = None,
    ) -> None:
        super().__init__(agent, raw_item, description, title)
        self.tool_origin = tool_origin


class ToolCallOutputItem(native.ToolCallOutputItem):
    """The result of a tool; `output` is the returned object."""

    __slots__ = ("custom_data", "tool_origin")

    def __init__(
        self,
        agent: Any,
        raw_item: Any,
        output: Any,
        tool_origin: Any = None,
        custom_data: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(agent, raw_item, output)
        self.tool_origin = tool_origin
        self.custom_data = custom_data


class ToolApprovalItem(native.ToolApprovalItem):
    """A tool call that waits for approval. Answer with `state.approve(item)` or
    `state.reject(item)`."""

    __slots__ = ("inbox_id", "tool_namespace", "tool_origin")

    def __init__(
        self,
        agent: Any,
        raw_item: Any,
        tool_name: str | None = None,
        tool_namespace: str | None = None,
        tool_origin: Any = None,
        *,
        inbox_id: str | None = None,
    ) -> None:
        super().__init__(agent, raw_item, tool_name)
        self.tool_namespace = tool_namespace or raw_field(raw_item, "namespace")
        self.tool_origin = tool_origin
        self.inbox_id = inbox_id
        """Where the question lies in the inbox of the store."""

    @property
    def name(self) -> str | None:
        """The name of the tool."""
        return self.tool_name

    @property
    def qualified_name(self) -> str | None:
        """The name with its namespace."""
        if self.tool_namespace and self.tool_namespace != self.tool_name:
            return f"{self.tool_namespace}.{self.tool_name}"
        return self.tool_name

    @property
    def arguments(self) -> str | None:
        """The arguments as JSON text."""
        found = raw_field(self.raw_item, "arguments") or raw_field(self.raw_item, "input")
        if found is None and raw_field(self.raw_item, "action") is not None:
            from ekiden.tools.output import output_text

            return output_text(raw_field(self.raw_item, "action"))
        return None if found is None else str(found)

    def to_input_item(self) -> Item:
        """Raises an error, because the item is not part of the conversation."""
        from ekiden.core.errors import UserError

        raise UserError("a ToolApprovalItem is no input: answer it with RunState.approve or reject")


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
    | InputItem
)


@dataclass
class ModelResponse:
    """A complete answer of a model."""

    output: list[Any]
    usage: Usage
    response_id: str | None = None
    request_id: str | None = None
    raw_usage: dict[str, Any] | None = None

    def to_input_items(self) -> list[Item]:
        """The answer as input items of the next call."""
        return [to_input_item(item) for item in self.output]


class ItemHelpers(native.ItemHelpers):
    """Functions on raw items and run items."""

    @staticmethod
    def input_to_new_input_list(input: Any) -> list[Item]:
        """A copy of a run's input as a list. Changes of the copy do not affect the original."""
        if isinstance(input, str):
            return [{"content": input, "role": "user"}]
        return native.ItemHelpers.input_to_new_input_list(input)

    @staticmethod
    def tool_call_output_item(tool_call: Any, output: Any) -> Item:
        """The output item for `tool_call`; images and files become content parts."""

        return {
            "call_id": raw_field(tool_call, "call_id"),
            "output": output_parts(output),
            "type": "function_call_output",
        }


@cache
def _adapter() -> TypeAdapter[Any]:
    return TypeAdapter(ResponseOutputItem)


def typed(item: Any) -> Any:
    """An output item as the `openai` package's object; what is none stays as it is."""
    if not isinstance(item, dict):
        return item
    try:
        return _adapter().validate_python(_completed(item))
    except ValidationError:
        return item


def _completed(item: Item) -> Item:
    """The item with what OpenAI's types require and other providers leave out."""
    if "async_" in item:
        item = {"async" if key == "async_" else key: part for key, part in item.items()}
    if not is_message(item):
        if item.get("type") == "reasoning":
            return {"id": "", "summary": [], **item}
        return item
    content = item.get("content")
    parts = [{"type": "output_text", "text": content}] if isinstance(content, str) else content
    parts = [
        {"annotations": [], **part}
        if isinstance(part, dict) and part.get("type") == "output_text"
        else part
        for part in parts or ()
    ]
    return {
        "id": "",
        "status": "completed",
        "role": "assistant",
        **item,
        "type": "message",
        "content": parts,
    }


ToolApprovalRawItem: TypeAlias = Any
ToolSearchCallRawItem: TypeAlias = Any
ToolSearchOutputRawItem: TypeAlias = Any


def coerce_tool_search_call_raw_item(raw_item: Any) -> ToolSearchCallRawItem:
    """The item with the type of the `openai` package, as far as it is complete."""
    return _tool_search(raw_item, "tool_search_call")


def coerce_tool_search_output_raw_item(raw_item: Any) -> ToolSearchOutputRawItem:
    """The item with the type of the `openai` package, as far as it is complete."""
    return _tool_search(raw_item, "tool_search_output")


def _tool_search(raw_item: Any, kind: str) -> Any:
    if raw_field(raw_item, "type") != kind:
        raise ValueError(f"an item of the type {kind} is needed, not {raw_item!r}")
    return typed(dict(raw_item)) if isinstance(raw_item, Mapping) else raw_item


# What tools return as parts of content: text, images and files.


class ToolOutputText(BaseModel):
    """Text as the output of a tool."""

    type: Literal["text"] = "text"
    text: str


class ToolOutputTextDict(TypedDict, total=False):
    """`ToolOutputText` as a dictionary."""

    type: Literal["text"]
    text: str


class ToolOutputImage(BaseModel):
    """An image as the output of a tool."""

    type: Literal["image"] = "image"
    image_url: str | None = None
    file_id: str | None = None
    detail: Literal["low", "high", "auto"] | None = None

    @model_validator(mode="after")
    def _check(self) -> ToolOutputImage:
        if self.image_url is None and self.file_id is None:
            raise ValueError("At least one of image_url or file_id must be provided")
        return self


class ToolOutputImageDict(TypedDict, total=False):
    """`ToolOutputImage` as a dictionary."""

    type: Literal["image"]
    image_url: NotRequired[str]
    file_id: NotRequired[str]
    detail: NotRequired[Literal["low", "high", "auto"]]


class ToolOutputFileContent(BaseModel):
    """A file as the output of a tool."""

    type: Literal["file"] = "file"
    file_data: str | None = None
    file_url: str | None = None
    file_id: str | None = None
    filename: str | None = None

    @model_validator(mode="after")
    def _check(self) -> ToolOutputFileContent:
        if self.file_data is None and self.file_url is None and self.file_id is None:
            raise ValueError("At least one of file_data, file_url, or file_id must be provided")
        return self


class ToolOutputFileContentDict(TypedDict, total=False):
    """`ToolOutputFileContent` as a dictionary."""

    type: Literal["file"]
    file_data: NotRequired[str]
    file_url: NotRequired[str]
    file_id: NotRequired[str]
    filename: NotRequired[str]


ValidToolOutputPydanticModels = ToolOutputText | ToolOutputImage | ToolOutputFileContent
ValidToolOutputPydanticModelsTypeAdapter: TypeAdapter[ValidToolOutputPydanticModels] = TypeAdapter(
    ValidToolOutputPydanticModels
)
_NAMES = {"text": "input_text", "image": "input_image", "file": "input_file"}


def output_parts(value: Any) -> str | list[dict[str, Any]]:
    """The content of a ``function_call_output``: parts if all of it is parts, else text."""
    values = value if isinstance(value, list | tuple) else [value]
    parts = [_part(each) for each in values]
    if parts and all(part is not None for part in parts):
        return [part for part in parts if part is not None]
    return str(value) if not isinstance(value, str) else value


def _part(value: Any) -> dict[str, Any] | None:
    if isinstance(value, dict):
        if value.get("type") not in _NAMES:
            return None
        try:
            value = ValidToolOutputPydanticModelsTypeAdapter.validate_python(value)
        except ValidationError:
            return None
    if not isinstance(value, ValidToolOutputPydanticModels):
        return None
    fields = value.model_dump(exclude_none=True)
    return {**fields, "type": _NAMES[value.type]}


def told(value: Any) -> str | list[dict[str, Any]]:
    """What the model is shown of a tool's result."""
    shown = output_parts(value)
    return shown if isinstance(shown, list) or isinstance(value, str) else shown or output_text("")


# The items of what a model gave.

_CLASSES: dict[str, Callable[[Any, Any], Any]] = {
    "message": MessageOutputItem,
    "reasoning": ReasoningItem,
    "mcp_list_tools": MCPListToolsItem,
    "mcp_approval_request": MCPApprovalRequestItem,
    "mcp_approval_response": MCPApprovalResponseItem,
    "compaction": CompactionItem,
    "tool_search_call": ToolSearchCallItem,
    "tool_search_output": ToolSearchOutputItem,
}
EVENT_NAMES = {
    "message_output_item": "message_output_created",
    "tool_call_item": "tool_called",
    "tool_call_output_item": "tool_output",
    "handoff_call_item": "handoff_requested",
    "handoff_output_item": "handoff_occured",
    "reasoning_item": "reasoning_item_created",
    "mcp_approval_request_item": "mcp_approval_requested",
    "mcp_approval_response_item": "mcp_approval_response",
    "mcp_list_tools_item": "mcp_list_tools",
    "tool_search_call_item": "tool_search_called",
    "tool_search_output_item": "tool_search_output_created",
}


def run_item(raw: Any, agent: Any, offered: Any) -> Any:
    """The run item of one output item of a model; `offered` knows the tools of the turn."""
    kind = raw_field(raw, "type")
    if kind == "function_call":
        name = raw_field(raw, "name")
        if name in offered.handoffs:
            return HandoffCallItem(agent, raw)
        tool = offered.tools.get(name)
        return ToolCallItem(
            agent,
            raw,
            description=getattr(tool, "description", None) or None,
            title=getattr(tool, "title", None),
            tool_origin=offered.origin(tool),
        )
    return _CLASSES.get(str(kind), ToolCallItem)(agent, raw)


def plain_output(output: Any) -> list[Item]:
    """A model's output as JSON items."""
    return [to_item(each) for each in output]


__getattr__ = placeholders(__name__)
