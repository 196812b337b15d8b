"""What others speak: A2A and MCP, each only where its package is installed."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from importlib.util import find_spec

from fastapi import FastAPI

_log = logging.getLogger("ekiden.server")


def add_standards(app: FastAPI) -> None:
    """Add the routes of those that are installed, and say which are not."""
    if find_spec("a2a") is None or find_spec("sse_starlette") is None:
        _log.info("A2A is not served: pip install 'ekiden[a2a]'")
    else:
        from ekiden.server.a2a.routes import add_a2a

        add_a2a(app)
    if find_spec("mcp") is None:
        _log.info("MCP is not served: pip install 'ekiden[mcp]'")
    else:
        from ekiden.server.mcp.mounting import add_mcp

        add_mcp(app)


@asynccontextmanager
async def standards_running(app: FastAPI) -> AsyncIterator[None]:
    """What they need as long as the application runs."""
    async with AsyncExitStack() as stack:
        if find_spec("mcp") is not None:
            from ekiden.server.mcp.mounting import mcp_running

            await stack.enter_async_context(mcp_running(app))
        yield
