"""Giving agents the tools of MCP servers that their files name."""

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
    from ekiden.tools.mcp import McpServer, McpTools

SLOW_S = 1.0
"""After this long a message says what is waited for."""


async def serve(
    mcp: McpTools,
    servers: Mapping[str, McpServer],
    users: Sequence[tuple[AgentDefinition, Agent[Any]]],
    *,
    names: Mapping[str, Sequence[str]],
    tell: Callable[[str], None] | None,
) -> list[str]:
    """Connect the servers and add their tools to the agents; gives what a person should know.

    `names` are, by agent, the tools of servers that it may use. What cannot be had is left out and
    told. `tell` is called at once if connecting takes long.
    """
    wanted = {name for each in names.values() for name in each}
    await _connect(mcp, servers, wanted, tell)
    notes: list[str] = []
    for definition, agent in users:
        if definition.name in names:
            await _give(mcp, definition, agent, names[definition.name], notes)
    return notes


async def _connect(
    mcp: McpTools,
    servers: Mapping[str, McpServer],
    names: Collection[str],
    tell: Callable[[str], None] | None,
) -> None:
    """Connect side by side what `names` need; one that names no server keeps none from it."""
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
    from ekiden.tools.mcp.content import read_name

    try:
        server = read_name(name, servers).server
    except UnknownTool:
        return None
    return None if servers[server].disabled else server


async def _give(
    mcp: McpTools,
    definition: AgentDefinition,
    agent: Agent[Any],
    names: Sequence[str],
    notes: list[str],
) -> None:
    """Add the tools that `names` mean to those of the agent, each once."""
    own = {tool.name for tool in agent.tools} | own_tools(definition)
    given: dict[str, FunctionTool] = {}
    whole = True
    for name in names:
        try:
            given.update((tool.name, tool) for tool in await mcp.tools_for([name]))
        except EkidenError as exc:
            notes.append(f"{definition.name} has no {name}: {exc}")
            whole = False
    for name in sorted(own & given.keys()):
        notes.append(
            f"{definition.name} has a tool of its own called {name}, so it does not get the MCP "
            "server's: rename one of them"
        )
        del given[name]
    asking = await _asking(mcp, definition, given, own, notes if whole else [])
    agent.tools.extend(
        confirmed(definition, tool, asking.get(tool.name, ())) for tool in given.values()
    )


async def _asking(
    mcp: McpTools,
    definition: AgentDefinition,
    given: Mapping[str, FunctionTool],
    own: Collection[str],
    notes: list[str],
) -> dict[str, list[str]]:
    """By tool, the names by which the file has it confirmed."""
    found: dict[str, list[str]] = {}
    for name in definition.require_confirmation:
        meant = {name}
        if is_mcp_name(name):
            meant = await _meant(mcp, name)
        for tool in meant & given.keys():
            found.setdefault(tool, []).append(name)
        if meant.isdisjoint(given) and name not in definition.tools and name not in own:
            notes.append(f"{name} is to be confirmed for {definition.name}, which has no such tool")
    return found


async def _meant(mcp: McpTools, name: str) -> set[str]:
    try:
        return {tool.name for tool in await mcp.tools_for([name])}
    except (McpUnavailable, UnknownTool):
        return set()
