"""Runs one call of a tool."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Coroutine
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ekiden.core.context import ToolContext
from ekiden.core.errors import ToolError, ToolTimeout, error_names
from ekiden.core.privacy.masking import cover, masked_keys, without_known
from ekiden.core.tools.tool import FunctionTool
from ekiden.tools.output import ToolResult, output_of
from ekiden.tools.under_way import is_being_cancelled

if TYPE_CHECKING:
    from ekiden.core.tools.guardrails import GuardrailDecision


def invoke(
    tool: FunctionTool,
    ctx: ToolContext[Any],
    *,
    timeout_s: float | None = None,
    checked: tuple[GuardrailDecision, ...] | None = None,
) -> Coroutine[Any, Any, ToolResult]:
    """Run `tool` on ``ctx.tool_arguments``, with its own timeout or `timeout_s`.

    A failure (bad arguments, an exception, `ToolTimeout`, an unusable result) is a result whose
    `output` comes from the tool's `failure_error_function`. Without such a function, or if it fails
    too, the exception is raised. A cancellation of this call cancels the tool. A `CancelledError`
    that the tool raises by itself counts as its failure. Secrets of this process are masked in
    `output`. In the output of a failure, everything that looks like a key is masked.

    The tool's guardrails run before and after the call, also after a failure, each with the timeout
    `timeout_s`. `checked` is the result of `check_input`, if the caller already ran it. A rejection
    is returned as a result. A guardrail that ends the run, or fails, raises a `GuardrailError`.
    """
    if not tool.tool_input_guardrails and not tool.tool_output_guardrails:
        return _call(tool, ctx, timeout_s)
    return _guarded_call(tool, ctx, timeout_s, checked)


async def _guarded_call(
    tool: FunctionTool,
    ctx: ToolContext[Any],
    timeout_s: float | None,
    checked: tuple[GuardrailDecision, ...] | None,
) -> ToolResult:
    from ekiden.tools.guardrails import check_input, check_output, refusal

    if checked is None:
        checked = await check_input(tool, ctx, timeout_s=timeout_s)
    refused = refusal(checked)
    if refused is not None:
        return refused
    result = await _call(tool, ctx, timeout_s)
    result = await check_output(tool, ctx, result, timeout_s=timeout_s)
    return replace(result, guardrails=checked + result.guardrails)


async def _call(tool: FunctionTool, ctx: ToolContext[Any], timeout_s: float | None) -> ToolResult:
    limit = tool.timeout_seconds if tool.timeout_seconds is not None else timeout_s
    try:
        if limit is None:
            value = await tool.on_invoke_tool(ctx, ctx.tool_arguments)
        else:
            value = await _in_time(tool, ctx, limit)
        return ToolResult(without_known(output_of(value)), value)
    except Exception as exc:
        failure = exc
    except asyncio.CancelledError as exc:
        if is_being_cancelled():
            raise
        failure = ToolError(
            f"tool {tool.name!r} waited for something that was cancelled, though the call was "
            "not cancelled: catch CancelledError where the tool cancels what it waits for"
        )
        failure.__cause__ = exc
    except SystemExit as exc:
        failure = ToolError(f"tool {tool.name!r} tried to end the process (exit code {exc.code!r})")
        failure.__cause__ = exc
    if tool.failure_error_function is None:
        raise failure
    answer = tool.failure_error_function(ctx, failure)
    if inspect.isawaitable(answer):
        answer = await answer
    error = cover(f"{type(failure).__name__}: {failure}")
    output = output_of(answer)
    output = cover(output) if isinstance(output, str) else masked_keys(without_known(output))
    return ToolResult(output, None, error, kinds=tuple(error_names(failure)))


async def _in_time(tool: FunctionTool, ctx: ToolContext[Any], limit: float) -> Any:
    deadline = asyncio.timeout(limit)
    try:
        async with deadline:
            return await tool.on_invoke_tool(ctx, ctx.tool_arguments)
    except Exception as exc:
        if deadline.expired():
            raise ToolTimeout(tool.name, limit) from exc
        raise
