from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from ekiden.core.context import ToolContext
from ekiden.core.tools.tool import FunctionTool
from ekiden.tools import ToolResult, invoke

Run = Callable[..., Awaitable[ToolResult]]


@pytest.fixture
def run() -> Run:
    """Calls a tool as the runtime does: with JSON text, or with keyword arguments put in JSON."""

    async def run(
        tool: FunctionTool,
        text: str | None = None,
        /,
        *,
        context: Any = None,
        timeout_s: float | None = None,
        **arguments: Any,
    ) -> ToolResult:
        ctx = ToolContext(
            context,
            tool_name=tool.name,
            tool_call_id="call_1",
            tool_arguments=json.dumps(arguments) if text is None else text,
            idempotency_key="key_1",
        )
        return await invoke(tool, ctx, timeout_s=timeout_s)

    return run
