"""Names of tools that MCP servers have."""

from __future__ import annotations

_MCP = ("mcp:", "mcp__")


def is_mcp_name(name: str) -> bool:
    """Whether a name in `tools.allow` means a tool of an MCP server."""
    return name.startswith(_MCP)
