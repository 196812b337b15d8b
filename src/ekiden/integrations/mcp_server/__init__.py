"""The team as an MCP server: sessions, handoffs and the inbox as tools; needs `ekiden[mcp]`."""

from ekiden.core.integrations.lazy import lazy_names

__getattr__ = lazy_names(
    __name__,
    {
        "install": "ekiden.integrations.mcp_server.http",
        "running": "ekiden.integrations.mcp_server.http",
        "serve_stdio": "ekiden.integrations.mcp_server.server",
    },
)
