"""Running one call of a tool."""

from __future__ import annotations

import asyncio
import inspect
from dataclasses import dataclass
from typing import Any

from ekiden.core.context import ToolContext
from ekiden.core.errors import ToolError, ToolTimeout
from ekiden.core.tool import FunctionTool
from ekiden.tools.cancellation import is_being_cancelled
from ekiden.tools.output import output_of


@dataclass(frozen=True, slots=True)
class ToolResult:
    """How a call ended."""

    output: Any
    """JSON: the content of the ``function_call_output`` item."""
    value: Any
    """What the tool returned; `None` if it failed."""
    error: str | None = None
    """Why it failed, for people; the model reads `output`."""


async def invoke(
    tool: FunctionTool, ctx: ToolContext[Any], *, timeout_s: float | None = None
) -> ToolResult:
    """Run `tool` on ``ctx.tool_arguments``, no longer than its own time-out or `timeout_s`.

    A failure (bad arguments, an exception, `ToolTimeout`, a result that cannot be shown) is a
    result whose `output` the tool's `failure_error_function` words. A tool without one raises it
    instead, and so does a `failure_error_function` that fails itself. Cancellation passes through;
    a `CancelledError` that nobody asked for is the tool's own failure.
    """
    limit = tool.timeout_seconds if tool.timeout_seconds is not None else timeout_s
    try:
        if limit is None:
            value = await tool.on_invoke_tool(ctx, ctx.tool_arguments)
        else:
            value = await _in_time(tool, ctx, limit)
        return ToolResult(output_of(value), value)
    except Exception as exc:
        failure = exc
    except asyncio.CancelledError as exc:
        if is_being_cancelled():
            raise
        failure = ToolError(
            f"tool {tool.name!r} waited for something that was cancelled, though nobody cancelled "
            "the call: catch CancelledError where the tool cancels what it waits for"
        )
        failure.__cause__ = exc
    except SystemExit as exc:
        failure = ToolError(f"tool {tool.name!r} tried to end the process (exit code {exc.code!r})")
        failure.__cause__ = exc
    if tool.failure_error_function is None:
        raise failure
    told = tool.failure_error_function(ctx, failure)
    if inspect.isawaitable(told):
        told = await told
    return ToolResult(output_of(told), None, f"{type(failure).__name__}: {failure}")


async def _in_time(tool: FunctionTool, ctx: ToolContext[Any], limit: float) -> Any:
    deadline = asyncio.timeout(limit)
    try:
        async with deadline:
            return await tool.on_invoke_tool(ctx, ctx.tool_arguments)
    except Exception as exc:
        if deadline.expired():
            raise ToolTimeout(tool.name, limit) from exc
        raise
