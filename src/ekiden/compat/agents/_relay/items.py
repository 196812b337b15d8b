"""What the loop stored, with the types of the `openai` package."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ekiden.compat.agents.items import (
    CompactionItem,
    HandoffCallItem,
    MCPApprovalRequestItem,
    MCPApprovalResponseItem,
    MCPListToolsItem,
    MessageOutputItem,
    ReasoningItem,
    ToolCallItem,
    ToolSearchCallItem,
    ToolSearchOutputItem,
)
from ekiden.core.conversation.model import Item, to_item
from ekiden.core.conversation.run_items import raw_field

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
