"""The tools of several MCP servers."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from ekiden.core.context import ToolContext
from ekiden.core.errors import McpUnavailable, ModelBehaviorError, ToolError, UnknownTool
from ekiden.core.profile import Confirmation
from ekiden.core.tools.tool import FunctionTool
from ekiden.tools.function import tool_error_in_words
from ekiden.tools.mcp.content import (
    description_of,
    is_destructive,
    read_name,
    schema_of,
    text_of,
    tool_name,
)
from ekiden.tools.mcp.link import Link, SessionOver
from ekiden.tools.mcp.servers import McpServer
from ekiden.tools.signature import bad_arguments
from ekiden.tools.under_way import even_if_cancelled

_DESTRUCTIVE = (
    "{tool_name} may destroy or overwrite things, its server says. Run it with {tool_args}?"
)


class McpConnection:
    """A server and the link to it, if there is one; `close` it in the end."""

    def __init__(self, server: McpServer, root: Path, environment: Mapping[str, str]) -> None:
        self._server = server
        self._root = root
        self._environment = environment
        self._link: Link | None = None
        self._linking = asyncio.Lock()
        self._is_closed = False

    async def tools(self) -> Sequence[Any]:
        """What the server offers; `McpUnavailable`."""
        return (await self._linked()).tools

    async def call(self, tool: str, arguments: dict[str, Any], meta: dict[str, Any]) -> Any:
        """The result of a call; `ToolError` for a failure that is only the call's.

        A lost server is connected once more; `McpUnavailable` if that fails, or if it is lost
        during the call: then the effect is unknown, and the call is not repeated.
        """
        link = await self._linked()
        try:
            return await link.call(tool, arguments, meta)
        except SessionOver:
            pass
        link = await self._linked()
        try:
            return await link.call(tool, arguments, meta)
        except SessionOver as exc:
            raise McpUnavailable(self._server.name, "it forgets its connections") from exc

    async def close(self) -> None:
        """Let the server go."""
        self._is_closed = True
        async with self._linking:
            link, self._link = self._link, None
        if link is not None:
            await link.close()

    async def _linked(self) -> Link:
        async with self._linking:
            if self._is_closed:
                raise McpUnavailable(self._server.name, "the connections are closed")
            if self._link is None or self._link.is_over:
                if self._link is not None:
                    lost, self._link = self._link, None
                    await lost.close()
                link = Link(self._server, self._root, self._environment)
                await link.open()
                self._link = link
            return self._link


class McpTools:
    """Tools of MCP servers by their names in agent files.

    A server is started or connected when one of its tools is first needed, and closed at the end::

        servers, problems = parse_mcp_servers(settings.mcp_servers)
        async with McpTools(servers, root=Path("shop")) as mcp:
            agent.tools.extend(await mcp.tools_for(["mcp:github/*", "mcp:files/read"]))
            await Runner.run(agent, "Which issues are open?")

    Use it in one event loop. With `ask` every call needs human approval, even if the server
    declares the tool harmless: servers are not trusted. With `ask_destructive` only tools that the
    server declares destructive need approval. A server may declare nothing about a destructive
    tool; use `ask` for such servers.
    """

    def __init__(
        self,
        servers: Mapping[str, McpServer],
        *,
        root: Path,
        ask: bool = True,
        ask_destructive: bool = True,
        environment: Mapping[str, str] = os.environ,
    ) -> None:
        self._servers = dict(servers)
        self._connections = {
            name: McpConnection(server, root, environment)
            for name, server in servers.items()
            if not server.disabled
        }
        self._ask = ask
        self._ask_destructive = ask_destructive
        self._tools: dict[str, dict[str, FunctionTool]] = {}
        self._failures: dict[str, McpUnavailable] = {}
        self._opening = asyncio.Lock()

    @property
    def failures(self) -> Mapping[str, McpUnavailable]:
        """The servers that could not be connected, each with the reason."""
        return dict(self._failures)

    async def open(self, names: Iterable[str] | None = None) -> None:
        """Connect the servers that `names` need, or all of them, at the same time.

        Servers that fail are in `failures` afterwards. Servers that failed earlier are tried again.
        Raises `UnknownTool` for a name that no server has.
        """
        if names is None:
            wanted = set(self._connections)
        else:
            wanted = {read_name(name, self._servers).server for name in names}
        async with self._opening:
            await self._connect(wanted - set(self._tools))

    async def tools_for(self, names: Sequence[str]) -> list[FunctionTool]:
        """The tools with these `names`, each once.

        A name is ``mcp:server/tool``, ``mcp:server/*`` or ``mcp:server``, or in the form of other
        programs ``mcp__server__tool``. The needed servers are connected concurrently. A server that
        already failed is not tried again here. A `disabled` server has no tools. Raises
        `McpUnavailable` for the first server that cannot be connected, and `UnknownTool`.
        """
        wishes = [(name, read_name(name, self._servers)) for name in names]
        needed = {wish.server for _, wish in wishes}
        async with self._opening:
            await self._connect(needed - set(self._tools) - set(self._failures))
        found: dict[str, FunctionTool] = {}
        for name, wish in wishes:
            if wish.server in self._failures:
                raise self._failures[wish.server]
            offered = self._tools.get(wish.server, {})
            chosen = {tool: offered[tool] for tool in offered if wish.wants(tool)}
            if not chosen and wish.tool is not None and wish.server in self._tools:
                raise UnknownTool(
                    name,
                    known=[f"mcp:{wish.server}/{tool}" for tool in offered],
                    problem=f"the MCP server {wish.server!r} has no tool {wish.tool!r}",
                )
            found.update((tool.name, tool) for tool in chosen.values())
        return list(found.values())

    async def close(self) -> None:
        """Close all servers; their tools fail from now on."""
        async with asyncio.TaskGroup() as group:
            for connection in self._connections.values():
                group.create_task(connection.close())

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def _connect(self, servers: Iterable[str]) -> None:
        """Connect side by side; one that fails takes no other down."""
        async with asyncio.TaskGroup() as group:
            for name in servers:
                if name in self._connections:
                    group.create_task(self._list(name))

    async def _list(self, server: str) -> None:
        try:
            listed = await self._connections[server].tools()
        except McpUnavailable as exc:
            self._failures[server] = exc
            return
        self._failures.pop(server, None)
        taken = {tool.name for tools in self._tools.values() for tool in tools.values()}
        offered: dict[str, FunctionTool] = {}
        for each in listed:
            if each.name not in offered:
                name = tool_name(server, each.name, taken)
                taken.add(name)
                offered[each.name] = self._made(server, each, name)
        self._tools[server] = offered

    def _made(self, server: str, tool: Any, name: str) -> FunctionTool:
        return FunctionTool(
            name=name,
            description=description_of(tool),
            params_json_schema=schema_of(tool),
            on_invoke_tool=_invoker(self._connections[server], tool.name, name),
            strict_json_schema=False,
            timeout_seconds=self._servers[server].timeout,
            failure_error_function=tool_error_in_words,
            confirmation=self._confirmation(tool),
        )

    def _confirmation(self, tool: Any) -> Confirmation | None:
        if is_destructive(tool) and (self._ask or self._ask_destructive):
            return Confirmation(prompt_template=_DESTRUCTIVE)
        return Confirmation() if self._ask else None


def _invoker(
    connection: McpConnection, tool: str, name: str
) -> Callable[[ToolContext[Any], str], Awaitable[str]]:
    async def invoke(ctx: ToolContext[Any], arguments: str) -> str:
        meta = {"ekiden/idempotency_key": ctx.idempotency_key} if ctx.idempotency_key else {}
        request = connection.call(tool, _read(name, arguments), meta)
        result = await even_if_cancelled(request)
        text = text_of(result)
        if result.is_error:
            raise ToolError(text or "the tool failed and did not say why")
        return text

    return invoke


def _read(name: str, arguments: str) -> dict[str, Any]:
    try:
        read = json.loads(arguments or "{}")
    except (ValueError, RecursionError) as exc:
        raise ModelBehaviorError(bad_arguments(name, "they are not valid JSON")) from exc
    if read is None:
        return {}
    if not isinstance(read, dict):
        raise ModelBehaviorError(bad_arguments(name, "they must be a JSON object"))
    return read
