"""Realtime agents and the handoffs between them."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from pydantic import BaseModel

from ekiden import (
    Agent,
    Budget,
    Handoff,
    ModelBehaviorError,
    RunContextWrapper,
    UserError,
    function_tool,
    handoff,
)
from ekiden.integrations.realtime import RealtimeAgent, collect_enabled_handoffs, realtime_handoff
from tests.support.cases import each_case

B = RealtimeAgent("b")
CONTEXT: RunContextWrapper[Any] = RunContextWrapper("ctx")


@function_tool
def plain() -> str:
    """Nothing special."""
    return ""


@function_tool(confirmation=True)
def dangerous() -> str:
    """Needs a yes."""
    return ""


@each_case(
    ("fields", "problem"),
    [
        ({"name": ""}, "a name that is not empty"),
        ({"name": 5}, "a name that is not empty"),
        ({"name": "a\nb"}, "control characters"),
        ({"name": "x" * 201}, "1 to 200 characters"),
        ({"name": "a", "tools": "t"}, "must be lists"),
        ({"name": "a", "tools": [print]}, "function_tool"),
        ({"name": "a", "tools": [dangerous]}, "needs human approval"),
        ({"name": "a", "handoffs": RealtimeAgent("b")}, "must be a list"),
        ({"name": "a", "handoffs": ["b"]}, "realtime_handoff"),
        ({"name": "a", "handoffs": [Agent("b")]}, "realtime_handoff"),
        ({"name": "a", "handoffs": [handoff(Agent("b"))]}, "realtime_handoff"),
        ({"name": "a", "handoffs": [handoff(B, budget=Budget(tokens=1))]}, "has `budget`"),
        ({"name": "a", "handoffs": [handoff(B, include_context=False)]}, "has `include_context`"),
    ],
)
def test_invalid_fields_of_an_agent_are_refused(fields: dict[str, Any], problem: str) -> None:
    with pytest.raises(UserError, match=problem):
        RealtimeAgent(**fields)


def test_a_clone_shares_the_fields_that_are_not_replaced() -> None:
    desk = RealtimeAgent("desk", tools=[plain])
    copy = desk.clone(name="copy")
    assert (copy.name, copy.tools is desk.tools) == ("copy", True)
    assert repr(copy) == "<RealtimeAgent 'copy'>"


async def test_instructions_are_a_text_or_any_kind_of_function() -> None:
    async def later(ctx: RunContextWrapper[Any], agent: Any) -> str:
        return f"{agent.name} for {ctx.context}"

    assert await RealtimeAgent("a").get_system_prompt(CONTEXT) is None
    assert await RealtimeAgent("a", instructions="be").get_system_prompt(CONTEXT) == "be"
    assert await RealtimeAgent("a", instructions=later).get_system_prompt(CONTEXT) == "a for ctx"
    wrong: Any = lambda ctx, agent: 5  # noqa: E731
    with pytest.raises(UserError, match="returned int, not text"):
        await RealtimeAgent("a", instructions=wrong).get_system_prompt(CONTEXT)


async def test_a_handoff_returns_its_target() -> None:
    billing = RealtimeAgent("billing", handoff_description="Knows money.")
    made = realtime_handoff(billing)
    assert isinstance(made, Handoff)
    assert (made.tool_name, made.agent_name) == ("transfer_to_billing", "billing")
    assert made.agent is billing
    assert made.tool_description.endswith("Knows money.")
    assert made.input_filter is None
    assert await made.on_invoke_handoff(CONTEXT, "") is billing
    assert made.get_transfer_message(billing) == '{"assistant":"billing"}'


def test_a_name_in_any_script_has_a_unique_tool_name() -> None:
    names = [realtime_handoff(RealtimeAgent(name)).tool_name for name in ("退款", "返金", "🎉")]
    assert names[0] == "transfer_to_5f322c3c"
    assert len(set(names)) == 3


@each_case(
    ("options", "problem"),
    [
        ({"on_handoff": lambda: None}, "must take"),
        ({"on_handoff": lambda ctx, data: None}, "must take"),
        ({"on_handoff": lambda ctx: None, "input_type": int}, "must take"),
        ({"on_handoff": "text"}, "must be a function or None"),
        ({"on_handoff": "text", "input_type": int}, "must be a function or None"),
        ({"input_type": int}, "must provide on_handoff"),
        ({"on_handoff": lambda ctx, data: None, "input_type": dict[str, int]}, "schema"),
    ],
)
def test_a_callback_with_the_wrong_signature_is_refused(
    options: dict[str, Any], problem: str
) -> None:
    with pytest.raises(UserError, match=problem):
        realtime_handoff(RealtimeAgent("a"), **options)


def test_only_a_realtime_agent_can_be_a_handoff_target() -> None:
    with pytest.raises(UserError, match="needs a RealtimeAgent"):
        realtime_handoff(Agent("a"))  # type: ignore[call-overload]


class Order(BaseModel):
    """What it is about."""

    number: int


@pytest.mark.parametrize(
    ("kind", "arguments", "value"),
    [
        (Order, '{"number": 7}', Order(number=7)),
        (int, "7", 7),
        (int, '{"value": 7}', 7),
        (list[str], '["发票"]', ["发票"]),
        (list[str], '{"value": ["发票"]}', ["发票"]),
    ],
)
async def test_the_validated_input_reaches_the_callback(
    kind: Any, arguments: str, value: Any
) -> None:
    seen: list[Any] = []
    made = realtime_handoff(
        RealtimeAgent("a"), on_handoff=lambda ctx, data: seen.append(data), input_type=kind
    )
    assert made.input_json_schema["type"] == "object"
    await made.on_invoke_handoff(CONTEXT, arguments)
    assert seen == [value]


@pytest.mark.parametrize("arguments", ["", "null", "{", '{"number": "7"}', "7", '"x"', "[" * 99999])
@pytest.mark.parametrize("kind", [Order, list[str]])
async def test_invalid_handoff_input_is_a_model_behavior_error(kind: Any, arguments: str) -> None:
    made = realtime_handoff(RealtimeAgent("a"), on_handoff=lambda ctx, data: None, input_type=kind)
    with pytest.raises(ModelBehaviorError):
        await made.on_invoke_handoff(CONTEXT, arguments)


async def test_the_handoff_of_a_plain_agent_is_created_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    target = RealtimeAgent("odd/name")
    desk = RealtimeAgent("desk", handoffs=[target])
    [first] = await collect_enabled_handoffs(desk, CONTEXT)
    [again] = await collect_enabled_handoffs(desk, CONTEXT)
    assert again is first
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    target.handoff_description = "something else"
    [changed] = await collect_enabled_handoffs(desk, CONTEXT)
    assert changed.tool_description.endswith("something else")


async def test_a_handoff_added_later_is_validated() -> None:
    desk = RealtimeAgent("desk")
    desk.handoffs.append("nobody")  # type: ignore[arg-type]
    with pytest.raises(UserError, match="realtime_handoff"):
        await collect_enabled_handoffs(desk, CONTEXT)
