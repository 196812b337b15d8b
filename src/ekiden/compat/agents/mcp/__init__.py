"""MCP servers and their tools."""

from ekiden.compat.agents.mcp.manager import MCPServerManager as MCPServerManager
from ekiden.compat.agents.mcp.server import (
    LocalMCPApprovalCallable as LocalMCPApprovalCallable,
    MCPServer as MCPServer,
    MCPServerSse as MCPServerSse,
    MCPServerSseParams as MCPServerSseParams,
    MCPServerStdio as MCPServerStdio,
    MCPServerStdioParams as MCPServerStdioParams,
    MCPServerStreamableHttp as MCPServerStreamableHttp,
    MCPServerStreamableHttpParams as MCPServerStreamableHttpParams,
    MCPToolCustomDataContext as MCPToolCustomDataContext,
    MCPToolCustomDataExtractor as MCPToolCustomDataExtractor,
    MCPToolMetaContext as MCPToolMetaContext,
    MCPToolMetaResolver as MCPToolMetaResolver,
    ToolFilter as ToolFilter,
    ToolFilterCallable as ToolFilterCallable,
    ToolFilterContext as ToolFilterContext,
    ToolFilterStatic as ToolFilterStatic,
    create_static_tool_filter as create_static_tool_filter,
)
from ekiden.compat.agents.mcp.util import MCPUtil as MCPUtil
from ekiden.compat.agents.not_supported import names_of

__all__ = names_of(__name__)
