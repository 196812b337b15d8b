"""The tools of several MCP servers: their connections, descriptions, calls and results."""

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
from ekiden.core.values import dumps
from ekiden.tools.function import tool_error_in_words
from ekiden.tools.mcp_link import Link, SessionOver
from ekiden.tools.mcp_servers import McpServer, read_name, tool_name
from ekiden.tools.output import shortened, without_hidden
from ekiden.tools.signature import bad_arguments
from ekiden.tools.under_way import even_if_cancelled

_MAX_RESULT = 100_000
"""Maximum length of a result, in characters."""
_MAX_DESCRIPTION = 4_000
_MAX_REMARK = 1_000
_MAX_SCHEMA = 100_000
_MAX_DEPTH = 32
_ANYTHING: Mapping[str, Any] = {"type": "object", "properties": {}, "additionalProperties": True}

_DESTRUCTIVE = (
    "{tool_name} may destroy or overwrite things, its server says. Run it with {tool_args}?"
)


class McpConnection:
    """A server and its current link. A lost link is renewed. Call `close` at the end."""

    def __init__(self, server: McpServer, root: Path, environment: Mapping[str, str]) -> None:
        self._server = server
        self._root = root
        self._environment = environment
        self._link: Link | None = None
        self._linking = asyncio.Lock()
        self._is_closed = False

    async def tools(self) -> Sequence[Any]:
        """The tools of the server. Raises `McpUnavailable`."""
        return (await self._linked()).tools

    async def call(self, tool: str, arguments: dict[str, Any], meta: dict[str, Any]) -> Any:
        """Return the result of a call. Raises `ToolError` if only the call failed.

        If the connection is lost before the call, Ekiden connects once more. Raises
        `McpUnavailable` if this fails, or if the connection is lost during the call. The effect of
        such a call is unknown, so it is not repeated.
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
        """Close the connection for good."""
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
    """Gives agents the tools of MCP servers. The tools have the same names as in agent files, such
    as ``mcp:github/*``.

    A server is started or connected when one of its tools is first needed, and closed at the end::

        servers, problems = parse_mcp_servers(settings.mcp_servers)
        async with McpTools(servers, root=Path("shop")) as mcp:
            agent.tools.extend(await mcp.tools_for(["mcp:github/*", "mcp:files/read"]))
            await Runner.run(agent, "Which issues are open?")

    Use one object in one event loop only. With `ask`, every call needs human approval, even if the
    server declares the tool harmless, because servers are not trusted. With `ask_destructive`, only
    tools that the server declares destructive need approval. Some servers do not declare their
    destructive tools; use `ask` for them.
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
        """Connect at the same time all servers of the tools in `names`. Without `names`, connect
        all servers.

        Servers that failed earlier are tried again. Afterwards, `failures` contains the servers
        that could not be connected. Raises `UnknownTool` for the name of a tool whose server is
        unknown.
        """
        if names is None:
            wanted = set(self._connections)
        else:
            wanted = {read_name(name, self._servers).server for name in names}
        async with self._opening:
            await self._connect(wanted - set(self._tools))

    async def tools_for(self, names: Sequence[str]) -> list[FunctionTool]:
        """The tools with these `names`, without duplicates.

        A name is ``mcp:server/tool``, ``mcp:server/*``, ``mcp:server`` or ``mcp__server__tool``,
        the form that some other programs use. The servers of these tools are connected at the same
        time. A server that failed before is not tried again. To try it again, call `open`. A
        `disabled` server has no tools. Raises `McpUnavailable` for the first server that cannot be
        connected, and `UnknownTool` for the name of an unknown tool, or of a tool whose server is
        unknown.
        """
        references = [(name, read_name(name, self._servers)) for name in names]
        needed = {reference.server for _, reference in references}
        async with self._opening:
            await self._connect(needed - set(self._tools) - set(self._failures))
        found: dict[str, FunctionTool] = {}
        for name, reference in references:
            if reference.server in self._failures:
                raise self._failures[reference.server]
            offered = self._tools.get(reference.server, {})
            chosen = {tool: offered[tool] for tool in offered if reference.matches(tool)}
            if not chosen and reference.tool is not None and reference.server in self._tools:
                raise UnknownTool(
                    name,
                    known=[f"mcp:{reference.server}/{tool}" for tool in offered],
                    problem=f"the MCP server {reference.server!r} has no tool {reference.tool!r}",
                )
            found.update((tool.name, tool) for tool in chosen.values())
        return list(found.values())

    async def close(self) -> None:
        """Close the connections to all servers, and stop the programs that were started. Later
        calls of their tools fail."""
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
        """Connect concurrently; a failure does not affect other servers."""
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
            read_only=tool.annotations is not None and tool.annotations.read_only_hint is True,
            origin={
                "mcp": self._servers[server].identity(),
                "tool": tool.name,
                "destructive": is_destructive(tool),
            },
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


# What a server sends is untrusted: every text is shortened and freed of hidden characters.


def description_of(tool: Any) -> str:
    """The description of a tool for the model."""
    text = tool.description or tool.title or ""
    return shortened(without_hidden(text).strip(), _MAX_DESCRIPTION)


def is_destructive(tool: Any) -> bool:
    """Whether the server declares that its tool may destroy or overwrite something."""
    return tool.annotations is not None and tool.annotations.destructive_hint is True


def schema_of(tool: Any) -> dict[str, Any]:
    """The schema of a tool's arguments. If the server's schema is unusable, the result is a schema
    for any object."""
    try:
        schema = _cleaned(tool.input_schema, 0)
        size = len(dumps(schema))
    except (TypeError, ValueError, RecursionError):
        return dict(_ANYTHING)
    if not isinstance(schema, dict) or size > _MAX_SCHEMA or schema.get("type") != "object":
        return dict(_ANYTHING)
    if not isinstance(schema.get("properties"), dict):
        schema["properties"] = {}
    return schema


def text_of(result: Any) -> str:
    """Convert a result to text: the texts of the result, its structured content as JSON, and notes
    about other parts."""
    texts = [_block(block) for block in result.content]
    structured = result.structured_content
    if structured is not None and not any(_equals(text, structured) for text in texts):
        texts.append(dumps(structured))
    return shortened("\n".join(texts), _MAX_RESULT)


def _block(block: Any) -> str:
    match block.type:
        case "text":
            return str(block.text)
        case "image" | "audio":
            return f"[{block.type}, {_short(block.mime_type)}, {_size(block.data)}]"
        case "resource_link":
            return f"[link to {_short(block.name)}: {_short(str(block.uri))}]"
        case "resource":
            held = block.resource
            if hasattr(held, "text"):
                return str(held.text)
            return f"[data of {_short(str(held.uri))}, {_size(held.blob)}]"
        case other:
            return f"[{_short(str(other))}]"


def _size(data: str) -> str:
    return f"{len(data) * 3 // 4 - data[-2:].count('='):,} bytes"


def _short(text: str) -> str:
    return shortened(without_hidden(text), 200)


def _equals(text: str, value: Any) -> bool:
    """Whether the text repeats the structured content, as MCP recommends.

    Some servers wrap values that are not objects as ``{"result": …}``.
    """
    inner = value["result"] if isinstance(value, dict) and list(value) == ["result"] else value
    if text == inner:
        return True
    try:
        return json.loads(text) in (value, inner)
    except (ValueError, RecursionError):
        return False


def _cleaned(value: Any, depth: int) -> Any:
    if depth > _MAX_DEPTH:
        raise ValueError("too deep")
    if isinstance(value, Mapping):
        return {
            key: shortened(without_hidden(each), _MAX_REMARK)
            if key in ("title", "description") and isinstance(each, str)
            else _cleaned(each, depth + 1)
            for key, each in value.items()
            if key != "$comment"
        }
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_cleaned(each, depth + 1) for each in value]
    return value
