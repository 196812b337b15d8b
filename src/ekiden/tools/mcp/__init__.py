"""Tools of MCP servers, which are started or connected when they are needed."""

from ekiden.tools.mcp.collection import McpTools as McpTools
from ekiden.tools.mcp.servers import McpServer as McpServer, parse_mcp_servers as parse_mcp_servers
