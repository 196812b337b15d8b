"""Guardrails around one call: allow, reject, end the run; and when they fail themselves."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, cast

import pytest

from ekiden import FunctionTool, ToolContext, ToolTimeout, UserError, function_tool
from ekiden.core.guardrails import (
    GuardrailFailed,
    ToolInputGuardrailTripwireTriggered,
    ToolOutputGuardrailTripwireTriggered,
)
from ekiden.core.tools.guardrails import (
    GuardrailDecision,
    ToolGuardrailFunctionOutput,
    ToolInputGuardrail,
    ToolInputGuardrailData,
    ToolOutputGuardrail,
    ToolOutputGuardrailData,
    tool_input_guardrail,
    tool_output_guardrail,
)
from ekiden.tools import ToolResult, check_input, invoke, refusal

Run = Callable[..., Awaitable[ToolResult]]
Output = ToolGuardrailFunctionOutput

AT_ONCE = 0.001


def echo_tool(made: list[str] | None = None, **options: Any) -> FunctionTool:
    async def echo(text: str = "") -> Any:
        if made is not None:
            made.append(text)
        return {"said": text}

    return function_tool(echo, **options)


def always(output: Any) -> Callable[[Any], Any]:
    return lambda data: output


def inputs(*outputs: Any) -> list[ToolInputGuardrail[Any]]:
    return [
        ToolInputGuardrail(always(output), name=f"in{index}")
        for index, output in enumerate(outputs, 1)
    ]


def outputs(*outputs: Any) -> list[ToolOutputGuardrail[Any]]:
    return [
        ToolOutputGuardrail(always(output), name=f"out{index}")
        for index, output in enumerate(outputs, 1)
    ]


async def test_an_allowed_call_returns_the_same_result_as_without_guardrails(run: Run) -> None:
    tool = echo_tool(
        tool_input_guardrails=inputs(Output.allow("fine"), Output.allow()),
        tool_output_guardrails=outputs(Output.allow({1, 2})),
    )
    result = await run(tool, text="a")
    assert result == ToolResult(
        '{"said":"a"}',
        {"said": "a"},
        None,
        (
            GuardrailDecision(type="tool_input", guardrail="in1", behavior="allow", info="fine"),
            GuardrailDecision(type="tool_input", guardrail="in2", behavior="allow"),
            GuardrailDecision(type="tool_output", guardrail="out1", behavior="allow", info=[1, 2]),
        ),
    )


async def test_empty_lists_are_no_guardrails(run: Run) -> None:
    tool = echo_tool(tool_input_guardrails=[], tool_output_guardrails=[])
    assert (await run(tool, text="a")).guardrails == ()


async def test_a_rejected_call_is_not_run_and_the_reason_is_reported_to_the_model(run: Run) -> None:
    made: list[str] = []
    tool = echo_tool(
        made,
        tool_input_guardrails=inputs(Output.allow(), Output.reject_content("not that", 7), None),
        tool_output_guardrails=outputs(Output.raise_exception()),
    )
    result = await run(tool, text="a")
    assert made == []
    assert (result.output, result.value) == ("not that", None)
    assert result.error == "guardrail 'in2' rejected the call, which was not made: not that"
    assert [decision.guardrail for decision in result.guardrails] == ["in1", "in2"]
    assert result.guardrails[-1].info == 7


async def test_a_rejected_output_is_replaced_and_not_shown(run: Run) -> None:
    tool = echo_tool(
        tool_input_guardrails=inputs(Output.allow()),
        tool_output_guardrails=outputs(Output.reject_content("hidden"), None),
    )
    result = await run(tool, text="sk-1")
    assert (result.output, result.value) == ("hidden", None)
    assert "sk-1" not in repr(result)
    assert result.error == "guardrail 'out1' rejected the output: hidden"
    assert [decision.guardrail for decision in result.guardrails] == ["in1", "out1"]


async def test_an_input_guardrail_may_end_the_run_before_the_call(run: Run) -> None:
    made: list[str] = []
    decided = Output.raise_exception({"word": "password"})
    [guardrail] = inputs(decided)
    with pytest.raises(ToolInputGuardrailTripwireTriggered, match="'in1'.* the tool 'echo'") as got:
        await run(echo_tool(made, tool_input_guardrails=[guardrail]), text="a")
    assert got.value.guardrail is guardrail
    assert got.value.output is decided
    assert made == []


async def test_an_output_guardrail_may_end_the_run_despite_a_failure_function(
    run: Run,
) -> None:
    made: list[str] = []
    [guardrail] = outputs(Output.raise_exception())
    with pytest.raises(
        ToolOutputGuardrailTripwireTriggered, match="the tool 'echo' returned"
    ) as got:
        await run(echo_tool(made, tool_output_guardrails=[guardrail]), text="a")
    assert got.value.guardrail is guardrail
    assert made == ["a"]


async def test_guardrails_get_the_call_the_agent_and_the_output() -> None:
    seen: list[Any] = []

    @tool_input_guardrail
    def before(data: ToolInputGuardrailData) -> Output:
        seen.append((data.context.tool_arguments, data.agent))
        return Output.allow()

    @tool_output_guardrail
    async def after(data: ToolOutputGuardrailData) -> Output:
        seen.append((data.context.idempotency_key, data.agent, data.output))
        return Output.allow()

    tool = echo_tool(tool_input_guardrails=[before], tool_output_guardrails=[after])
    ctx = ToolContext(
        tool_name="echo",
        tool_call_id="1",
        tool_arguments='{"text": "hi"}',
        idempotency_key="k",
        agent="desk",
    )
    await invoke(tool, ctx)
    assert seen == [('{"text": "hi"}', "desk"), ("k", "desk", {"said": "hi"})]


async def test_input_guardrails_get_arguments_that_are_invalid_json(run: Run) -> None:
    seen: list[str] = []

    @tool_input_guardrail
    def before(data: ToolInputGuardrailData) -> Output:
        seen.append(data.context.tool_arguments)
        return Output.allow()

    result = await run(echo_tool(tool_input_guardrails=[before]), "{oops")
    assert seen == ["{oops"]
    assert result.error is not None
    assert [decision.guardrail for decision in result.guardrails] == ["before"]


async def test_output_guardrails_get_the_text_of_a_failure(run: Run) -> None:
    @function_tool(tool_output_guardrails=outputs(Output.reject_content("it failed")))
    def leak() -> None:
        raise ValueError("the key is sk-1")

    result = await run(leak)
    assert result.output == "it failed"
    assert "sk-1" not in repr(result)


async def test_output_guardrails_get_a_timeout(run: Run) -> None:
    seen: list[Any] = []

    @tool_output_guardrail
    def after(data: ToolOutputGuardrailData) -> Output:
        seen.append(data.output)
        return Output.allow()

    @function_tool(timeout=AT_ONCE, tool_output_guardrails=[after])
    async def hang() -> None:
        await asyncio.Event().wait()

    result = await run(hang)
    assert seen == [result.output]
    assert result.error is not None
    assert result.error.startswith(ToolTimeout.__name__)


async def test_a_failure_that_ends_the_run_has_no_output_guardrail(run: Run) -> None:
    @function_tool(failure_error_function=None, tool_output_guardrails=outputs(None))
    def broken() -> None:
        raise ValueError("x")

    with pytest.raises(ValueError, match="x"):
        await run(broken)


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no")


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (KeyError("cents"), "KeyError: 'cents'"),
        (TimeoutError("own"), "TimeoutError: own"),
        (UserError("mine"), "UserError: mine"),
        (SystemExit(3), r"end the process \(exit code 3\)"),
        (asyncio.CancelledError(), "something that was cancelled"),
        (Unspeakable(), "Unspeakable: <Unspeakable>"),
    ],
    ids=lambda value: type(value).__name__,
)
@pytest.mark.parametrize("stage", ["input", "output"])
async def test_an_exception_in_a_guardrail_fails_the_call_with_the_reason(
    run: Run, stage: str, error: BaseException, told: str
) -> None:
    made: list[str] = []

    def worse(data: Any) -> Output:
        raise error

    guardrails: dict[str, Any] = {
        "input": {"tool_input_guardrails": [ToolInputGuardrail(worse)]},
        "output": {"tool_output_guardrails": [ToolOutputGuardrail(worse)]},
    }
    with pytest.raises(GuardrailFailed, match=f"'worse' of tool 'echo'.*{stage}.*{told}") as got:
        await run(echo_tool(made, **guardrails[stage]), text="a")
    assert got.value.__cause__ is error
    assert got.value.stage == stage
    assert made == ([] if stage == "input" else ["a"])


@pytest.mark.parametrize("given", [None, Output(None, cast("Any", {"type": "maybe"}))])
async def test_a_guardrail_that_returns_no_decision_fails_the_call(run: Run, given: Any) -> None:
    with pytest.raises(GuardrailFailed, match="'in1' returned") as got:
        await run(echo_tool(tool_input_guardrails=inputs(given)), text="a")
    assert isinstance(got.value.__cause__, UserError)


async def test_a_hanging_guardrail_times_out(run: Run) -> None:
    @tool_input_guardrail
    async def hangs(data: ToolInputGuardrailData) -> Output:
        await asyncio.Event().wait()
        return Output.allow()

    with pytest.raises(GuardrailFailed, match=r"'hangs'.* did not finish within 0\.001 s"):
        await run(echo_tool(tool_input_guardrails=[hangs]), text="a", timeout_s=AT_ONCE)


async def test_the_result_of_a_late_guardrail_is_ignored(run: Run) -> None:
    @tool_output_guardrail
    async def late(data: ToolOutputGuardrailData) -> Output:
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        return Output.allow()

    with pytest.raises(GuardrailFailed, match="did not finish within"):
        await run(echo_tool(tool_output_guardrails=[late]), text="a", timeout_s=AT_ONCE)


async def test_the_timeout_of_a_tool_excludes_its_guardrails(run: Run) -> None:
    @tool_input_guardrail
    async def slow(data: ToolInputGuardrailData) -> Output:
        for _ in range(5):
            await asyncio.sleep(0)
        return Output.allow()

    result = await run(echo_tool(timeout=5.0, tool_input_guardrails=[slow]), text="a", timeout_s=9)
    assert result.error is None


@pytest.mark.parametrize("stage", ["input", "output"])
async def test_cancelling_a_call_cancels_its_guardrail(run: Run, stage: str) -> None:
    begun, ended = asyncio.Event(), asyncio.Event()

    async def waits(data: Any) -> Output:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return Output.allow()

    guardrails: dict[str, Any] = {
        "input": {"tool_input_guardrails": [ToolInputGuardrail(waits)]},
        "output": {"tool_output_guardrails": [ToolOutputGuardrail(waits)]},
    }
    call = asyncio.ensure_future(run(echo_tool(**guardrails[stage]), text="a"))
    await begun.wait()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert ended.is_set()


async def test_an_invalid_guardrail_added_later_is_refused(run: Run) -> None:
    tool = echo_tool()
    tool.tool_input_guardrails = [lambda data: Output.allow()]  # type: ignore[list-item]
    with pytest.raises(UserError, match="make it with @tool_input_guardrail"):
        await run(tool, text="a")
    tool = echo_tool()
    tool.tool_output_guardrails = inputs(Output.allow())  # type: ignore[assignment]
    with pytest.raises(UserError, match="make it with @tool_output_guardrail"):
        await run(tool, text="a")


def test_a_tool_with_an_invalid_guardrail_cannot_be_created() -> None:
    with pytest.raises(UserError, match="`tool_output_guardrails` of tool 'echo'"):
        echo_tool(tool_output_guardrails=inputs(Output.allow()))


async def test_checked_input_guardrails_are_not_run_again() -> None:
    asked: list[str] = []

    @tool_input_guardrail
    def once(data: ToolInputGuardrailData) -> Output:
        asked.append(data.context.tool_call_id)
        return Output.allow()

    tool = echo_tool(tool_input_guardrails=[once])
    ctx = ToolContext(tool_name="echo", tool_call_id="1", tool_arguments="{}")
    checked = await check_input(tool, ctx)
    assert refusal(checked) is None
    assert (await invoke(tool, ctx, checked=checked)).guardrails == checked
    assert asked == ["1"]


async def test_a_rejection_message_reaches_the_model_unchanged(run: Run) -> None:
    for message in ("", "不行 🙅", "a" * 100_000):
        tool = echo_tool(tool_input_guardrails=inputs(Output.reject_content(message)))
        assert (await run(tool, text="a")).output == message
