"""What others speak, such as A2A and MCP: each only where its packages are installed."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from fastapi import FastAPI

from ekiden.core.integrations import integrations

_log = logging.getLogger("ekiden.server")


def add_standards(app: FastAPI) -> None:
    """Add the routes of those that are installed, and say which are not."""
    for each in integrations("server"):
        if each.is_installed:
            each.load().install(app)
        else:
            _log.info("%s is not served: %s", each.name, each.way_to_install)


@asynccontextmanager
async def standards_running(app: FastAPI) -> AsyncIterator[None]:
    """What they need as long as the application runs."""
    async with AsyncExitStack() as stack:
        for each in integrations("server"):
            running = getattr(each.load(), "running", None) if each.is_installed else None
            if running is not None:
                await stack.enter_async_context(running(app))
        yield
