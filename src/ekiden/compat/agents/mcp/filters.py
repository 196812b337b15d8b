"""Which tools of a server an agent sees, and what is passed along with calls."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NotRequired, Protocol, TypeAlias

from typing_extensions import TypedDict


class HttpClientFactory(Protocol):
    """Makes the HTTP client for a server."""

    def __call__(self, headers: Any = None, timeout: Any = None, auth: Any = None) -> Any:
        """The client."""


@dataclass
class ToolFilterContext:
    """The argument of a tool filter: the agent and the server."""

    run_context: Any
    agent: Any
    server_name: str


class ToolFilterStatic(TypedDict):
    """Allowed and blocked tools, by name."""

    allowed_tool_names: NotRequired[list[str]]
    blocked_tool_names: NotRequired[list[str]]


ToolFilterCallable: TypeAlias = Callable[[ToolFilterContext, Any], Any]
ToolFilter: TypeAlias = ToolFilterCallable | ToolFilterStatic | None


@dataclass
class MCPToolMetaContext:
    """The argument of a metadata resolver: the tool call."""

    run_context: Any
    server_name: str
    tool_name: str
    arguments: dict[str, Any] | None


@dataclass
class MCPToolCustomDataContext:
    """The argument of a `custom_data_extractor`: the tool call."""

    run_context: Any
    server_name: str
    tool_name: str
    tool_display_name: str
    arguments: Mapping[str, Any]
    result_meta: Mapping[str, Any] | None
    structured_content: Mapping[str, Any] | None
    is_error: bool | None
    tool_output: Any


MCPToolMetaResolver: TypeAlias = Callable[[MCPToolMetaContext], Any]
MCPToolCustomDataExtractor: TypeAlias = Callable[[MCPToolCustomDataContext], Any]


def create_static_tool_filter(
    allowed_tool_names: list[str] | None = None, blocked_tool_names: list[str] | None = None
) -> ToolFilterStatic | None:
    """A tool filter by name; `None` if you pass no names."""
    wanted = ToolFilterStatic()
    if allowed_tool_names is not None:
        wanted["allowed_tool_names"] = allowed_tool_names
    if blocked_tool_names is not None:
        wanted["blocked_tool_names"] = blocked_tool_names
    return wanted or None
