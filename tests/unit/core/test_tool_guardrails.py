"""Guardrails of tools as values: what they are made of and what they decide."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from ekiden.core.context import ToolContext
from ekiden.core.errors import EkidenError, UserError
from ekiden.core.guardrails import (
    GuardrailError,
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
from ekiden.core.tools.tool import FunctionTool

Output = ToolGuardrailFunctionOutput


def input_data() -> ToolInputGuardrailData:
    context = ToolContext(tool_name="pay", tool_call_id="1", tool_arguments='{"cents":1}')
    return ToolInputGuardrailData(context, "desk")


async def no_tool(ctx: ToolContext[Any], arguments: str) -> str:
    return arguments


def test_an_output_without_a_behavior_allows() -> None:
    assert Output() == Output.allow() == Output(None, {"type": "allow"})


def test_the_three_behaviors_keep_the_output_info() -> None:
    assert Output.allow(1) == Output(1, {"type": "allow"})
    assert Output.raise_exception([2]) == Output([2], {"type": "raise_exception"})
    rejected = Output.reject_content("too much", output_info="sum")
    assert rejected == Output("sum", {"type": "reject_content", "message": "too much"})


def test_two_outputs_do_not_share_their_behavior() -> None:
    assert Output().behavior is not Output().behavior


async def test_a_function_becomes_a_guardrail_with_its_name() -> None:
    @tool_input_guardrail
    def small_sums(data: ToolInputGuardrailData) -> Output:
        return Output.allow(data.context.tool_arguments)

    assert isinstance(small_sums, ToolInputGuardrail)
    assert small_sums.get_name() == "small_sums"
    assert await small_sums.run(input_data()) == Output.allow('{"cents":1}')


async def test_an_async_function_becomes_a_guardrail_with_a_given_name() -> None:
    @tool_output_guardrail(name="no keys")
    async def check(data: ToolOutputGuardrailData) -> Output:
        return Output.allow([data.agent, data.output])

    assert isinstance(check, ToolOutputGuardrail)
    assert check.get_name() == "no keys"
    data = ToolOutputGuardrailData(input_data().context, "desk", "sk-1")
    assert await check.run(data) == Output.allow(["desk", "sk-1"])


def test_a_decorator_may_be_called_without_arguments() -> None:
    assert tool_input_guardrail()(lambda data: Output()).get_name() == "<lambda>"
    assert tool_output_guardrail()(lambda data: Output()).get_name() == "<lambda>"
    assert tool_output_guardrail(lambda data: Output()).get_name() == "<lambda>"
    assert tool_input_guardrail(name="given")(lambda data: Output()).get_name() == "given"


def test_a_callable_without_a_name_is_named_after_its_type() -> None:
    assert tool_input_guardrail(partial(lambda data: Output())).get_name() == "partial"


@pytest.mark.parametrize("kind", [ToolInputGuardrail, ToolOutputGuardrail])
def test_a_guardrail_must_be_callable(kind: Any) -> None:
    with pytest.raises(UserError, match=f"{kind.__name__}.guardrail_function must be a function"):
        kind(guardrail_function="check")


@pytest.mark.parametrize("given", [None, True, "allow", {"type": "allow"}, 0])
async def test_a_result_that_is_no_output_is_refused(given: Any) -> None:
    with pytest.raises(
        UserError, match=f"'decide' returned {type(given).__name__}, not a ToolGuard"
    ):
        await ToolInputGuardrail(lambda data: given, name="decide").run(input_data())


@pytest.mark.parametrize(
    "behavior",
    [
        {},
        None,
        "allow",
        {"type": "permit"},
        {"type": ["allow"]},
        {"type": "reject_content"},
        {"type": "reject_content", "message": None},
        {"type": "reject_content", "message": 7},
    ],
)
async def test_an_unknown_behavior_is_refused(behavior: Any) -> None:
    guardrail = ToolOutputGuardrail(lambda data: Output(None, behavior), name="odd")
    with pytest.raises(UserError, match="'odd' returned a behavior that does not exist"):
        await guardrail.run(ToolOutputGuardrailData(input_data().context, None, None))


def test_a_tool_has_no_guardrails_by_default() -> None:
    tool = FunctionTool("pay", "", {}, no_tool)
    assert tool.tool_input_guardrails is None
    assert tool.tool_output_guardrails is None


def test_a_tool_accepts_only_guardrails_of_the_right_kind() -> None:
    inputs, outputs = (
        ToolInputGuardrail(lambda _: Output()),
        ToolOutputGuardrail(lambda _: Output()),
    )
    make: Any = partial(FunctionTool, "pay", "", {}, no_tool)
    tool = make(tool_input_guardrails=[inputs], tool_output_guardrails=[outputs])
    assert (tool.tool_input_guardrails, tool.tool_output_guardrails) == ([inputs], [outputs])
    with pytest.raises(UserError, match="tool_input_guardrails` of tool 'pay' has ToolOutputGuard"):
        make(tool_input_guardrails=[outputs])
    with pytest.raises(UserError, match="has function 'no_tool': make it with @tool_output_guard"):
        make(tool_output_guardrails=[no_tool])
    with pytest.raises(UserError, match="tool_input_guardrails` of tool 'pay' must be a list"):
        make(tool_input_guardrails=inputs)


@pytest.mark.parametrize(
    "decision",
    [
        GuardrailDecision(type="tool_input", guardrail="a", behavior="allow"),
        GuardrailDecision(type="tool_output", guardrail="退款", behavior="allow", info={"n": [1]}),
        GuardrailDecision(
            type="tool_input", guardrail="a", behavior="reject_content", message="", info=0
        ),
        GuardrailDecision(type="tool_output", guardrail="a", behavior="raise_exception"),
    ],
)
def test_a_decision_is_restored_from_json(decision: GuardrailDecision) -> None:
    data = decision.to_json()
    assert GuardrailDecision.from_json(data) == decision
    assert data["result"] == ("passed" if decision.behavior == "allow" else "failed")


def test_a_decision_omits_sensitive_fields_on_request() -> None:
    decision = GuardrailDecision(
        type="tool_output", guardrail="keys", behavior="reject_content", message="sk-1", info="sk-1"
    )
    assert "sk-1" not in str(decision.to_json(sensitive=False))


@pytest.mark.parametrize(
    "output", [Output.allow(1), Output.reject_content("no", 2), Output.raise_exception()]
)
def test_a_decision_returns_its_output(output: Output) -> None:
    decision = GuardrailDecision(
        type="tool_input",
        guardrail="a",
        behavior=output.behavior["type"],
        message=output.behavior.get("message"),
        info=output.output_info,
    )
    assert decision.output == output


def test_a_rejection_without_a_recorded_message_has_an_empty_one() -> None:
    decision = GuardrailDecision(type="tool_input", guardrail="a", behavior="reject_content")
    assert decision.output == Output.reject_content("")


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ToolInputGuardrailTripwireTriggered, "guardrail.tool_input"),
        (ToolOutputGuardrailTripwireTriggered, "guardrail.tool_output"),
    ],
)
def test_a_tripwire_names_guardrail_tool_and_advice(error: Any, code: str) -> None:
    guardrail = ToolInputGuardrail(lambda _: Output(), name="limit")
    output = Output.raise_exception("found")
    raised = error(guardrail, output, tool="pay")
    assert (raised.code, raised.guardrail, raised.output) == (code, guardrail, output)
    for word in ("'limit'", "'pay'", "output_info", "reject_content"):
        assert word in str(raised)
    assert "the tool " in str(error(guardrail=guardrail, output=output))
    assert isinstance(raised, GuardrailError)


def test_a_failed_guardrail_names_the_tool_and_the_reason() -> None:
    error = GuardrailFailed("limit", "pay", "KeyError: 'cents'", stage="input")
    assert error.code == "guardrail.failed"
    for word in ("'limit'", "'pay'", "KeyError: 'cents'", "input", "resume"):
        assert word in str(error)


def test_an_error_outside_a_run_has_no_run_data() -> None:
    assert EkidenError("x").run_data is None
