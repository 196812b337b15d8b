"""Gives agents the MCP tools that their files name."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ekiden.agents.definition import AgentDefinition
from ekiden.core.agent import Agent
from ekiden.core.errors import EkidenError, McpUnavailable, UnknownTool
from ekiden.core.tools.tool import FunctionTool
from ekiden.project.agent_files.assembly import confirmed, own_tools
from ekiden.project.agent_files.edges import is_mcp_name

if TYPE_CHECKING:
    from ekiden.tools.mcp_servers import McpServer
    from ekiden.tools.mcp_tools import McpTools

SLOW_S = 1.0
"""Seconds after which a message names the slow servers."""


async def serve(
    mcp: McpTools,
    servers: Mapping[str, McpServer],
    users: Sequence[tuple[AgentDefinition, Agent[Any]]],
    *,
    names: Mapping[str, Sequence[str]],
    tell: Callable[[str], None] | None,
) -> list[str]:
    """Connect the servers, add their tools to the agents, and return notes for people.

    `names` are the MCP tools in each agent's file. Unavailable tools are left out, with a note. If
    the connection takes long, the function `tell` is called meanwhile.
    """
    wanted = {name for each in names.values() for name in each}
    await _connect(mcp, servers, wanted, tell)
    notes: list[str] = []
    for definition, agent in users:
        if definition.name in names:
            await _add_tools(mcp, definition, agent, names[definition.name], notes)
    return notes


async def _connect(
    mcp: McpTools,
    servers: Mapping[str, McpServer],
    names: Collection[str],
    tell: Callable[[str], None] | None,
) -> None:
    """Connect all servers that `names` need, concurrently; unknown names are ignored."""
    needed = {name: server for name in names if (server := _server(name, servers)) is not None}
    if not needed:
        return
    waiting = None
    if tell is not None:
        words = f"connecting to MCP servers: {', '.join(sorted(set(needed.values())))} …"
        waiting = asyncio.get_running_loop().call_later(SLOW_S, tell, words)
    try:
        await mcp.open(needed)
    finally:
        if waiting is not None:
            waiting.cancel()


def _server(name: str, servers: Mapping[str, McpServer]) -> str | None:
    from ekiden.tools.mcp_servers import read_name

    try:
        server = read_name(name, servers).server
    except UnknownTool:
        return None
    return None if servers[server].disabled else server


async def _add_tools(
    mcp: McpTools,
    definition: AgentDefinition,
    agent: Agent[Any],
    names: Sequence[str],
    notes: list[str],
) -> None:
    """Add the MCP tools `names` to the agent's tools."""
    own = {tool.name for tool in agent.tools} | own_tools(definition)
    found: dict[str, FunctionTool] = {}
    is_complete = True
    for name in names:
        try:
            found.update((tool.name, tool) for tool in await mcp.tools_for([name]))
        except EkidenError as exc:
            notes.append(f"{definition.name} has no {name}: {exc}")
            is_complete = False
    for name in sorted(own & found.keys()):
        notes.append(
            f"{definition.name} has a tool of its own called {name}, so it does not get the MCP "
            "server's: rename one of them"
        )
        del found[name]
    # Without all tools, a name to confirm may belong to a missing tool: no note about it.
    confirm = await _names_to_confirm(mcp, definition, found, own, notes if is_complete else [])
    agent.tools.extend(
        confirmed(definition, tool, confirm.get(tool.name, ())) for tool in found.values()
    )


async def _names_to_confirm(
    mcp: McpTools,
    definition: AgentDefinition,
    tools: Mapping[str, FunctionTool],
    own: Collection[str],
    notes: list[str],
) -> dict[str, list[str]]:
    """For each tool, its names in `require_confirmation` of the file."""
    found: dict[str, list[str]] = {}
    for name in definition.require_confirmation:
        tool_names = await _tool_names(mcp, name) if is_mcp_name(name) else {name}
        for tool in tool_names & tools.keys():
            found.setdefault(tool, []).append(name)
        if tool_names.isdisjoint(tools) and name not in definition.tools and name not in own:
            notes.append(f"{name} is to be confirmed for {definition.name}, which has no such tool")
    return found


async def _tool_names(mcp: McpTools, name: str) -> set[str]:
    try:
        return {tool.name for tool in await mcp.tools_for([name])}
    except (McpUnavailable, UnknownTool):
        return set()
