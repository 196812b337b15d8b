"""Handoffs as agent files declare them."""

from __future__ import annotations

import pytest

from ekiden.core.agent import Agent
from ekiden.core.errors import UserError
from ekiden.handoff import declared_handoff, parse_filter
from ekiden.runtime import Runner
from ekiden.testing import ScriptedModel, say, transfer
from tests.support.cases import each_case


async def test_the_tool_of_a_declared_handoff_asks_for_a_reason_for_the_target() -> None:
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


@each_case(
    ("text", "made"),
    [
        ("keep_last(20)", "keep_last(20)"),
        ("keep_last(count=20)", "keep_last(20)"),
        (" keep_first_and_last ( 2 , 10 ) ", "keep_first_and_last(2, 10)"),
        ("remove_all_tools", "remove_all_tools"),
        ("remove_all_tools()", "remove_all_tools"),
        ("shorten_tool_outputs", "shorten_tool_outputs(2000)"),
        ("shorten_tool_outputs(500)", "shorten_tool_outputs(500)"),
        ("redact", "redact()"),
        ("redact(email, phone, email)", "redact(email, phone)"),
        ("summarise", "summarise(10, 2000)"),
        ("summarise(5)", "summarise(5, 2000)"),
        ("summarise(5, 3000)", "summarise(5, 3000)"),
        ("summarise(max_chars=3000, keep_last=5)", "summarise(5, 3000)"),
        ("summarise_with(openai:gpt-5-mini, 5)", "summarise_with(openai:gpt-5-mini, 5)"),
        ("nest_history", "nest_history()"),
    ],
)
def test_a_filter_in_an_agent_file_is_parsed_by_name(text: str, made: str) -> None:
    assert repr(parse_filter(text)) == made


@each_case(
    ("text", "problem"),
    [
        ("keep_lst(3)", "there is no filter 'keep_lst', known: .*did you mean 'keep_last'"),
        ("summarize(3)", "did you mean 'summarise'"),
        ("keep_last", r"takes 1 number \(count\) in brackets, such as keep_last\(20\), not 0"),
        ("keep_last(1, 2)", "'2' is one too many"),
        ("keep_last(-1)", "such as keep_last.20., not '-1'"),
        ("keep_last(x)", "not 'x'"),
        ("keep_last(1,)", "not ''"),
        ("keep_last(3", r"is written like keep_last\(20\), not 'keep_last\(3'"),
        ("keep_last(12345678901)", "not '12345678901'"),
        ("keep_last(１)", "not '１'"),
        ("keep_first_and_last(1)", r"takes 2 numbers \(first, last\) in brackets"),
        ("summarise(keep_lst=1)", "did you mean 'keep_last'"),
        ("summarise(1, keep_last=2)", "'keep_last=2' is one too many"),
        ("summarise(5, 10)", "max_chars must be at least 400"),
        ("summarise_with(10)", "takes 1 word and up to 2 numbers"),
        ("summarise_with(a:b, c:d)", "not 'c:d'"),
        ("remove_all_tools(1)", "takes nothing in brackets"),
        ("nest_history(x)", "takes nothing in brackets"),
        ("redact(e-mail)", "known: card, .*did you mean 'email'"),
        ("redact(5)", "takes any number of words in brackets"),
        ("", "there is no filter"),
        ("__import__('os')", "there is no filter"),
        ("x" * 10_000, "there is no filter"),
    ],
)
def test_an_unknown_filter_is_refused_with_the_known_names(text: str, problem: str) -> None:
    with pytest.raises(UserError, match=problem):
        parse_filter(text)
