"""A server that is connected when it is needed, and again after it was lost."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ekiden.core.errors import McpUnavailable
from ekiden.tools.mcp.link import Link, SessionOver
from ekiden.tools.mcp.servers import McpServer


class Connection:
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

        A server that was lost since the last call is connected once more; `McpUnavailable` if that
        fails, or if it is lost during the call: then nobody knows what it did, and the call is not
        repeated.
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
