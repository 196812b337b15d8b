from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from ekiden.core.context import ToolContext
from ekiden.core.tools.tool import FunctionTool
from ekiden.tools import ToolResult, invoke
from ekiden.tools.mcp_servers import parse_mcp_servers
from ekiden.tools.mcp_tools import McpTools

SUPPORT = Path(__file__).parents[2] / "support"
SERVER, TINY = SUPPORT / "mcp_server.py", SUPPORT / "mcp_tiny.py"

Call = Callable[..., Awaitable[ToolResult]]


def started(*ways: str, script: Path = TINY, **more: Any) -> dict[str, Any]:
    """An entry of `mcpServers` that starts a server of ours."""
    return {"command": sys.executable, "args": [str(script), *ways], "timeout": 60, **more}


@asynccontextmanager
async def mcp_tools(root: Path, /, ask: bool = True, **entries: Any) -> AsyncIterator[McpTools]:
    servers, problems = parse_mcp_servers(entries)
    assert not problems
    async with McpTools(servers, root=root, ask=ask) as tools:
        yield tools


@contextmanager
def listening(transport: str, port: int = 0) -> Iterator[tuple[int, subprocess.Popen[str]]]:
    """A server process with the transport, and its port."""
    with subprocess.Popen(
        [sys.executable, str(SERVER), transport, str(port)], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        try:
            yield int(process.stdout.readline()), process
        finally:
            process.kill()


@pytest.fixture(scope="session")
def call() -> Call:
    """Calls a tool as the runtime does."""

    async def call(tool: FunctionTool, **arguments: Any) -> ToolResult:
        ctx: ToolContext[Any] = ToolContext(
            tool_name=tool.name,
            tool_call_id="call_1",
            tool_arguments=json.dumps(arguments),
            idempotency_key="ses:1.1.t0",
        )
        return await invoke(tool, ctx)

    return call
