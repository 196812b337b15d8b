"""MCP over the standard streams, for the one client that started this process."""

from __future__ import annotations

from mcp.server.stdio import stdio_server

from ekiden.core.current_agent import acting_agent
from ekiden.integrations.mcp_server.server import Context, make_server
from ekiden.integrations.mcp_server.tool_call import Visitor
from ekiden.project.service import Service
from ekiden.server.access.access import Caller


async def serve_stdio(service: Service, caller: Caller) -> None:
    """Serve until the client closes standard input.

    A client that is an agent of ours, here or in a process above, is not offered to decide what
    people are asked.
    """
    visitor = Visitor(caller=caller, may_answer=caller.may("answer") and acting_agent() is None)

    async def find(context: Context) -> Visitor:
        return visitor

    server = make_server(service, find)
    async with stdio_server() as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())
