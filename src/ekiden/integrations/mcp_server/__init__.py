"""Serves the team as an MCP server, with tools for sessions, handoffs and the inbox. Needs
`ekiden[mcp]`."""

from typing import TYPE_CHECKING

from ekiden.core.integrations.lazy import lazy_names

if TYPE_CHECKING:
    from ekiden.integrations.mcp_server.server import (
        install as install,
        running as running,
        serve_stdio as serve_stdio,
    )

__getattr__ = lazy_names(__name__)
