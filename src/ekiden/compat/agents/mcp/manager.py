"""Several MCP servers, connected and closed together."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import AbstractAsyncContextManager
from typing import Any

from ekiden.compat.agents.logger import logger
from ekiden.compat.agents.mcp.server import MCPServer


class MCPServerManager(AbstractAsyncContextManager["MCPServerManager"]):
    """Connects servers. A server that fails is left out; with `strict` the failure is raised."""

    def __init__(
        self,
        servers: Iterable[MCPServer],
        *,
        connect_timeout_seconds: float | None = 10.0,
        cleanup_timeout_seconds: float | None = 10.0,
        drop_failed_servers: bool = True,
        strict: bool = False,
        suppress_cancelled_error: bool = True,
        connect_in_parallel: bool = False,
    ) -> None:
        self._servers = list(servers)
        self._active: list[MCPServer] = []
        self._errors: dict[MCPServer, BaseException] = {}
        self._connected: set[MCPServer] = set()
        self.connect_timeout_seconds = connect_timeout_seconds
        self.cleanup_timeout_seconds = cleanup_timeout_seconds
        self.drop_failed_servers = drop_failed_servers
        self.strict = strict
        self.suppress_cancelled_error = suppress_cancelled_error
        self.connect_in_parallel = connect_in_parallel

    @property
    def active_servers(self) -> list[MCPServer]:
        """The servers to pass to agents."""
        return list(self._active)

    @property
    def all_servers(self) -> list[MCPServer]:
        """All servers, including failed ones."""
        return list(self._servers)

    @property
    def failed_servers(self) -> list[MCPServer]:
        """The servers that could not be connected."""
        return list(self._errors)

    @property
    def errors(self) -> dict[MCPServer, BaseException]:
        """The error of each failed server."""
        return dict(self._errors)

    async def __aenter__(self) -> MCPServerManager:
        await self.connect_all()
        return self

    async def __aexit__(self, kind: Any, error: Any, traceback: Any) -> None:
        await self.cleanup_all()

    async def connect_all(self) -> list[MCPServer]:
        """Connect every server that is not connected."""
        return await self._connect(self._servers)

    async def reconnect(self, *, failed_only: bool = True) -> list[MCPServer]:
        """Connect the failed servers again, or all servers."""
        chosen = self.failed_servers if failed_only else self._servers
        if not failed_only:
            await self.cleanup_all()
        return await self._connect(list(chosen))

    async def _connect(self, servers: list[MCPServer]) -> list[MCPServer]:
        waiting = [each for each in servers if each not in self._connected]
        try:
            if self.connect_in_parallel:
                await asyncio.gather(*(self._connect_one(each) for each in waiting))
            else:
                for server in waiting:
                    await self._connect_one(server)
        except BaseException:
            await self.cleanup_all()
            raise
        drops = self.drop_failed_servers
        self._active = [each for each in self._servers if each in self._connected or not drops]
        return self.active_servers

    async def _connect_one(self, server: MCPServer) -> None:
        try:
            async with asyncio.timeout(self.connect_timeout_seconds):
                await server.connect()
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if not self.suppress_cancelled_error or (task is not None and task.cancelling()):
                raise
            self._errors[server] = asyncio.CancelledError()
        except Exception as error:
            self._errors[server] = error
            if self.strict:
                raise
            logger.error("MCP server %r was not connected: %s", server.name, error)
        else:
            self._errors.pop(server, None)
            self._connected.add(server)

    async def cleanup_all(self) -> None:
        """Close every connection, the newest first."""
        for server in reversed(self._servers):
            try:
                async with asyncio.timeout(self.cleanup_timeout_seconds):
                    await server.cleanup()
            except Exception as error:
                logger.error("MCP server %r was not closed: %s", server.name, error)
            self._connected.discard(server)
        self._active = []
