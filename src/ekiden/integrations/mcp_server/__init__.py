"""Serves the team as an MCP server, with tools for sessions, handoffs and the inbox. Needs
`ekiden[mcp]`."""

from ekiden.core.integrations.lazy import lazy_names

__getattr__ = lazy_names(
    __name__,
    {
        "install": "ekiden.integrations.mcp_server.server",
        "running": "ekiden.integrations.mcp_server.server",
        "serve_stdio": "ekiden.integrations.mcp_server.server",
    },
)
