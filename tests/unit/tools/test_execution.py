"""How a call ends: result, failure, time-out, cancellation."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from ekiden import (
    FunctionTool,
    RunContextWrapper,
    ToolContext,
    ToolError,
    ToolTimeout,
    function_tool as make_tool,
)
from ekiden.tools import ToolResult, default_tool_error_function

Run = Callable[..., Awaitable[ToolResult]]

AT_ONCE = 0.001


def raising(error: BaseException, *, asynchronous: bool, **options: Any) -> FunctionTool:
    async def fails_later() -> None:
        raise error

    def fails() -> None:
        raise error

    return make_tool(fails_later if asynchronous else fails, **options)


both = pytest.mark.parametrize("asynchronous", [True, False], ids=["async", "sync"])


async def test_a_result_has_the_value_and_the_output_for_the_model(run: Run) -> None:
    result = await run(make_tool(lambda: {"a": 1}, name_override="f"))
    assert result == ToolResult('{"a":1}', {"a": 1}, None)


@both
async def test_an_exception_is_reported_to_the_model(run: Run, asynchronous: bool) -> None:
    result = await run(raising(ValueError("no such order"), asynchronous=asynchronous))
    assert result.output == "The tool failed with ValueError: no such order"
    assert result.error == "ValueError: no such order"
    assert result.value is None


@both
async def test_a_tool_may_end_the_run_with_its_failure(run: Run, asynchronous: bool) -> None:
    error = ValueError("no such order")
    tool = raising(error, asynchronous=asynchronous, failure_error_function=None)
    with pytest.raises(ValueError, match="no such order") as caught:
        await run(tool)
    assert caught.value is error


async def test_a_failure_function_formats_the_error(run: Run) -> None:
    def sorry(ctx: RunContextWrapper[Any], error: Exception) -> str:
        assert isinstance(ctx, ToolContext)
        return f"{ctx.tool_name}: sorry, {error}"

    tool = raising(KeyError("x"), asynchronous=True, failure_error_function=sorry)
    assert (await run(tool)).output == "fails_later: sorry, 'x'"


async def test_a_failure_function_may_be_async_and_return_any_content(run: Run) -> None:
    async def sorry(ctx: RunContextWrapper[Any], error: Exception) -> dict[str, str]:
        return {"error": str(error)}

    tool = raising(ValueError("x"), asynchronous=True, failure_error_function=sorry)
    assert (await run(tool)).output == '{"error":"x"}'


async def test_an_exception_in_a_failure_function_ends_the_run(run: Run) -> None:
    def worse(ctx: RunContextWrapper[Any], error: Exception) -> str:
        raise RuntimeError("worse")

    tool = raising(ValueError("x"), asynchronous=True, failure_error_function=worse)
    with pytest.raises(RuntimeError, match="worse"):
        await run(tool)


async def test_the_text_of_a_failure_is_truncated(run: Run) -> None:
    result = await run(raising(ValueError("x" * 1_000_000), asynchronous=True))
    assert len(result.output) < 3_000


def test_the_default_error_text_can_be_used_by_a_custom_failure_function() -> None:
    assert "ValueError: x" in default_tool_error_function(RunContextWrapper(), ValueError("x"))


@pytest.mark.parametrize("on_failure", [None, lambda ctx, error: "Not run."])
async def test_a_result_without_a_json_form_is_an_error_that_says_that_the_call_was_made(
    run: Run, on_failure: Any
) -> None:
    tool = make_tool(lambda: threading.Lock(), name_override="f", failure_error_function=on_failure)
    result = await run(tool)
    assert result.output == f"Error: {result.error}"
    assert "the call of tool 'f' was made and may have had its effect" in result.output
    assert "a value of type 'lock' has no JSON form; do not repeat the call" in result.output
    assert "tool.result_unusable" in result.kinds
    assert result.is_run


@both
async def test_a_tool_that_exits_fails_instead_of_ending_the_process(
    run: Run, asynchronous: bool
) -> None:
    result = await run(raising(SystemExit(2), asynchronous=asynchronous))
    assert "tried to end the process (exit code 2)" in result.output

    tool = raising(SystemExit(2), asynchronous=asynchronous, failure_error_function=None)
    with pytest.raises(ToolError):
        await run(tool)


@both
async def test_a_tool_that_raises_stop_iteration_fails(run: Run, asynchronous: bool) -> None:
    result = await run(raising(StopIteration(), asynchronous=asynchronous))
    assert "StopIteration" in result.output


@both
async def test_a_cancelled_error_raised_by_a_tool_is_its_own_failure(
    run: Run, asynchronous: bool
) -> None:
    result = await run(raising(asyncio.CancelledError(), asynchronous=asynchronous))
    assert result.error is not None
    assert result.error.startswith("ToolError: tool 'fails")
    assert "the call was not cancelled" in result.output

    tool = raising(asyncio.CancelledError(), asynchronous=asynchronous, failure_error_function=None)
    with pytest.raises(ToolError, match="waited for something that was cancelled"):
        await run(tool, timeout_s=60)


async def test_a_tool_awaiting_a_task_it_cancelled_fails_and_the_caller_continues(
    run: Run,
) -> None:
    @make_tool
    async def careless() -> None:
        task = asyncio.create_task(asyncio.Event().wait())
        task.cancel()
        await task

    assert "ToolError" in ((await run(careless)).error or "")


async def test_other_base_exceptions_are_propagated(run: Run) -> None:
    class Alarm(BaseException):
        pass

    with pytest.raises(Alarm):
        await run(raising(Alarm(), asynchronous=True))


async def test_cancelling_the_caller_cancels_an_async_tool(run: Run) -> None:
    started, cleaned = asyncio.Event(), asyncio.Event()

    @make_tool
    async def wait() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            cleaned.set()

    call = asyncio.ensure_future(run(wait, timeout_s=60))
    await started.wait()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert cleaned.is_set()


async def test_an_async_tool_that_times_out_is_cancelled(run: Run) -> None:
    cleaned = asyncio.Event()

    @make_tool(timeout=AT_ONCE)
    async def wait() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cleaned.set()

    result = await run(wait)
    assert cleaned.is_set()
    assert "did not finish within 0.001 s" in result.output
    assert "may have had an effect" in result.output
    assert result.error is not None
    assert result.error.startswith("ToolTimeout")


async def test_a_sync_tool_that_times_out_is_abandoned_with_a_warning(
    run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    release, ended = threading.Event(), threading.Event()

    @make_tool(timeout=AT_ONCE)
    def wait() -> None:
        release.wait()
        ended.set()

    with caplog.at_level(logging.WARNING, logger="ekiden.tools"):
        result = await run(wait)
    assert "did not finish within" in result.output
    assert "'wait' was cancelled" in caplog.text
    assert not ended.is_set()
    release.set()
    assert await asyncio.to_thread(ended.wait, 10)


async def test_the_timeout_of_the_tool_overrides_that_of_the_run(run: Run) -> None:
    @make_tool(timeout=60)
    async def tick() -> str:
        await asyncio.sleep(0)
        return "tick"

    @make_tool
    async def wait() -> None:
        await asyncio.Event().wait()

    assert (await run(tick, timeout_s=0)).output == "tick"
    assert "ToolTimeout" in ((await run(wait, timeout_s=AT_ONCE)).error or "")


async def test_a_timeout_ends_the_run_if_failures_do(run: Run) -> None:
    @make_tool(failure_error_function=None)
    async def wait() -> None:
        await asyncio.Event().wait()

    with pytest.raises(ToolTimeout, match=r"'wait' did not finish within 0\.001 s"):
        await run(wait, timeout_s=AT_ONCE)


async def test_a_timeout_error_raised_by_a_tool_is_an_ordinary_failure(run: Run) -> None:
    result = await run(raising(TimeoutError("the bank"), asynchronous=True), timeout_s=60)
    assert result.error == "TimeoutError: the bank"


async def test_a_tool_that_fails_while_it_is_cancelled_timed_out(run: Run) -> None:
    @make_tool(timeout=AT_ONCE)
    async def wait() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise ValueError("while cleaning up") from None

    assert "ToolTimeout" in ((await run(wait)).error or "")


async def test_a_manually_created_tool_is_run(run: Run) -> None:
    async def shout(ctx: ToolContext[Any], arguments: str) -> str:
        return arguments.upper()

    tool = FunctionTool(name="shout", description="", params_json_schema={}, on_invoke_tool=shout)
    assert (await run(tool, "abc")).output == "ABC"


async def test_concurrent_calls_do_not_interfere(run: Run) -> None:
    @make_tool
    async def echo(n: int) -> int:
        await asyncio.sleep(0)
        return n

    results = await asyncio.gather(*(run(echo, n=n) for n in range(100)))
    assert [result.value for result in results] == list(range(100))
