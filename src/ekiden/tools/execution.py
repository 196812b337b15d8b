"""Runs one call of a tool with its guardrails. If a guardrail fails, `GuardrailFailed` is
raised."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from ekiden.core.context import ToolContext
from ekiden.core.errors import ToolError, ToolResultUnusable, ToolTimeout, error_names
from ekiden.core.guardrails import (
    GuardrailFailed,
    ToolInputGuardrailTripwireTriggered,
    ToolOutputGuardrailTripwireTriggered,
)
from ekiden.core.privacy.masking import cover, masked_keys, without_known
from ekiden.core.tools.guardrails import (
    GuardrailDecision,
    GuardrailStage,
    ToolGuardrailFunctionOutput,
    ToolInputGuardrailData,
    ToolOutputGuardrailData,
    check_guardrails,
)
from ekiden.core.tools.tool import FunctionTool
from ekiden.tools.output import NoJsonForm, ToolResult, output_of, to_jsonable
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

    After a failure (bad arguments, an exception, `ToolTimeout`), the `output`
    of the returned result comes from the tool's `failure_error_function`. If there is no such
    function, or if it fails too, the exception is raised. A cancellation of this call cancels the
    tool. A `CancelledError` that the tool itself raises counts as a failure of the tool. Secrets of
    this process are masked in `output`. In the output of a failure, everything that looks like a
    key is masked.

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
    else:
        # A forgotten command is no failure that a model could correct: it ends the run.
        if ctx.made is not None:
            ctx.made.check(f"tool {tool.name!r}", value)
        return _result(tool, value)
    finally:
        if ctx.made is not None:
            ctx.made.close()
    return await _failed(tool, ctx, failure)


def _result(tool: FunctionTool, value: Any) -> ToolResult:
    """The result of a call that was made.

    A result without a JSON form is an error that says that the call was made. It is a result of the
    call even without a `failure_error_function`: if it ended the run, a resume would repeat the
    call.
    """
    try:
        return ToolResult(without_known(output_of(value)), value)
    except NoJsonForm as exc:
        unusable = ToolResultUnusable(tool.name, str(exc))
    if inspect.iscoroutine(value):
        value.close()
    text = cover(str(unusable))
    return ToolResult(f"Error: {text}", None, text, kinds=tuple(error_names(unusable)))


async def _failed(tool: FunctionTool, ctx: ToolContext[Any], failure: Exception) -> ToolResult:
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


_log = logging.getLogger("ekiden.guardrails")

T = TypeVar("T")


async def check_input(
    tool: FunctionTool, ctx: ToolContext[Any], *, timeout_s: float | None = None
) -> tuple[GuardrailDecision, ...]:
    """Run the tool's input guardrails until one of them does not allow the call. The decision of
    this guardrail is the last one in the result.

    `timeout_s` is the timeout of each guardrail. Raises `ToolInputGuardrailTripwireTriggered` if a
    guardrail ends the run, and `GuardrailFailed` if a guardrail fails.
    """
    check_guardrails(tool.name, tool.tool_input_guardrails, None)
    data = ToolInputGuardrailData(ctx, ctx.agent)
    decisions: list[GuardrailDecision] = []
    for guardrail in tool.tool_input_guardrails or ():
        name = guardrail.get_name()
        given = await _run(guardrail.run(data), name, tool.name, "input", timeout_s)
        if given.behavior["type"] == "raise_exception":
            raise ToolInputGuardrailTripwireTriggered(guardrail, given, tool=tool.name)
        decisions.append(decision_of("tool_input", name, given))
        if not decisions[-1].passed:
            break
    return tuple(decisions)


async def check_output(
    tool: FunctionTool,
    ctx: ToolContext[Any],
    result: ToolResult,
    *,
    timeout_s: float | None = None,
) -> ToolResult:
    """Run the tool's output guardrails until one of them rejects the result.

    Returns `result`, or the refusal for the model, with the decisions. Raises
    `ToolOutputGuardrailTripwireTriggered` and `GuardrailFailed`, as `check_input` does.
    """
    check_guardrails(tool.name, None, tool.tool_output_guardrails)
    shown = result.value if result.error is None else result.output
    data = ToolOutputGuardrailData(ctx, ctx.agent, shown)
    decisions: list[GuardrailDecision] = []
    for guardrail in tool.tool_output_guardrails or ():
        name = guardrail.get_name()
        given = await _run(guardrail.run(data), name, tool.name, "output", timeout_s)
        if given.behavior["type"] == "raise_exception":
            raise ToolOutputGuardrailTripwireTriggered(guardrail, given, tool=tool.name)
        decisions.append(decision_of("tool_output", name, given))
        if not decisions[-1].passed:
            break
    checked = tuple(decisions)
    return refusal(checked) or replace(result, guardrails=checked)


def refusal(decisions: tuple[GuardrailDecision, ...]) -> ToolResult | None:
    """The result of a call whose input or output was rejected; `None` if nothing was rejected."""
    if not decisions or decisions[-1].passed:
        return None
    last = decisions[-1]
    what = "call, which was not made" if last.type == "tool_input" else "output"
    return ToolResult(
        output=last.message or "",
        value=None,
        error=f"guardrail {last.guardrail!r} rejected the {what}: {last.message}",
        guardrails=decisions,
    )


def decision_of(
    stage: GuardrailStage, guardrail: str, given: ToolGuardrailFunctionOutput
) -> GuardrailDecision:
    """The record of a guardrail's decision."""
    behavior = given.behavior
    return GuardrailDecision(
        type=stage,
        guardrail=guardrail,
        behavior=behavior["type"],
        message=behavior["message"] if behavior["type"] == "reject_content" else None,
        info=to_jsonable(given.output_info),
    )


async def _run(
    check: Coroutine[Any, Any, ToolGuardrailFunctionOutput],
    guardrail: str,
    tool: str,
    stage: str,
    timeout_s: float | None,
) -> ToolGuardrailFunctionOutput:
    return await decided(
        check, timeout_s, lambda problem: GuardrailFailed(guardrail, tool, problem, stage=stage)
    )


async def decided(
    check: Coroutine[Any, Any, T],
    timeout_s: float | None,
    failed: Callable[[str], GuardrailFailed],
) -> T:
    """Return the decision of a guardrail within `timeout_s` seconds.

    If the guardrail fails or exceeds the timeout, the function raises the error that `failed`
    returns. A cancellation of the caller passes through.
    """
    deadline = asyncio.timeout(timeout_s)
    try:
        async with deadline:
            given = await check
        if not deadline.expired():
            return given
        raise TimeoutError("it continued although it was cancelled")
    except asyncio.CancelledError as exc:
        if is_being_cancelled():
            raise
        cause: BaseException = exc
        problem = "it waited for something that was cancelled, though the call was not cancelled"
    except SystemExit as exc:
        cause, problem = exc, f"it tried to end the process (exit code {exc.code!r})"
    except Exception as exc:
        cause, problem = exc, f"{type(exc).__name__}: {to_jsonable(exc)}"
        if deadline.expired():
            problem = f"it did not finish within {timeout_s:g} s"
    failure = failed(problem)
    _log.error("%s", failure, exc_info=cause)
    raise failure from cause
