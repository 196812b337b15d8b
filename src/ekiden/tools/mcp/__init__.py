"""Tools of MCP servers, which are started or reached when they are needed."""

from ekiden.tools.mcp.collection import McpTools
from ekiden.tools.mcp.servers import McpServer, parse_mcp_servers

__all__ = ["McpServer", "McpTools", "parse_mcp_servers"]
