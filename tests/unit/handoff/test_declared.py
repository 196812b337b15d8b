"""Handoffs as agent files declare them."""

from __future__ import annotations

import pytest

from ekiden.core.agent import Agent
from ekiden.core.errors import UserError
from ekiden.handoff import declared_handoff, parse_filter
from ekiden.runtime import Runner
from ekiden.testing import ScriptedModel, say, transfer


async def test_its_tool_asks_for_a_reason_and_the_target_learns_it() -> None:
    with ScriptedModel([transfer("b", reason="an invoice", summary="paid twice"), say("ok")]) as m:
        b = Agent("b", model=m, description="Bills.")
        made = declared_handoff(b, description="when money is meant")
        result = await Runner.run(Agent("a", model=m, handoffs=[made]), "hi")
    assert result.chain == ["user", "a", "b"]
    assert made.tool_name == "transfer_to_b"
    assert made.tool_description.endswith("Bills. Use it: when money is meant")
    assert made.input_json_schema["required"] == ["reason", "context", "summary"]
    told = m.calls[1].system_instructions
    assert told is not None
    assert "an invoice" in told
    assert "paid twice" in told


async def test_filters_by_name_are_applied_in_order() -> None:
    with ScriptedModel([transfer("b", reason="x"), say("ok")]) as model:
        b = Agent("b", model=model)
        made = declared_handoff(b, filters=["remove_all_tools", "keep_last(1)"])
        await Runner.run(Agent("a", model=model, handoffs=[made]), "hi")
    assert model.calls[1].input == [{"role": "user", "content": "hi"}]


@pytest.mark.parametrize(
    "text", ["keep_last(20)", " keep_first_and_last ( 2 , 10 ) ", "remove_all_tools",
             "shorten_tool_outputs", "shorten_tool_outputs(500)"],
)  # fmt: skip
def test_ready_filters_have_names(text: str) -> None:
    assert callable(parse_filter(text))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("keep_lst(3)", "did you mean 'keep_last'"),
        ("keep_last", "takes 1 numbers in brackets, not 0"),
        ("keep_last(1, 2)", "not 2"),
        ("keep_last(-1)", "there is no filter"),
        ("", "there is no filter"),
        ("__import__('os')", "there is no filter"),
    ],
)
def test_others_are_refused_with_those_there_are(text: str, problem: str) -> None:
    with pytest.raises(UserError, match=problem):
        parse_filter(text)
