"""Agents and teams: what can be one, and what is refused with the way out."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from ekiden import Agent, Team, UserError, function_tool, handoff
from tests.support.cases import each_case


def lookup(order: str) -> str:
    """Look an order up."""
    return order


def test_a_plain_function_in_tools_is_refused_with_advice() -> None:
    plain: list[Any] = [lookup]
    with pytest.raises(UserError, match=r"agent 'a' has <function lookup.*wrap it with @function_"):
        Agent("a", tools=plain)


@each_case(
    ("tools", "told"),
    [
        (["lookup"], "which is not a tool: give what @function_tool makes"),
        ([Agent("b")], "belongs in `handoffs`"),
        ([handoff(Agent("b"))], "belongs in `handoffs`"),
        (function_tool(lookup), "must be lists"),
        ((function_tool(lookup),), "must be lists"),
        (None, "must be lists"),
    ],
)
def test_an_invalid_tools_list_is_refused(tools: Any, told: str) -> None:
    with pytest.raises(UserError, match=told):
        Agent("a", tools=tools)


@pytest.mark.parametrize(
    ("handoffs", "told"),
    [
        (["billing"], "has 'billing' of type str: give Agent objects"),
        ([None], "of type NoneType: give Agent objects"),
        ([lookup], "of type function: give Agent objects"),
        (Agent("b"), "must be lists"),
    ],
)
def test_an_invalid_handoffs_list_is_refused(handoffs: Any, told: str) -> None:
    with pytest.raises(UserError, match=told):
        Agent("a", handoffs=handoffs)


@each_case("name", ["退款", "مبيعات", "👩‍🚀 desk", "Łódź", "a" * 200, "a.b/c", "é"])
def test_a_name_may_be_of_any_script(name: str) -> None:
    assert Agent(name).name == name


@each_case(
    "name",
    ["", "  ", 7, None, "a\x00", "a\nb", "\x1b[31m", "a\x85", "a\u2028b", "a\ud800", "a" * 201],
)
def test_a_name_that_cannot_be_stored_or_logged_is_refused(name: Any) -> None:
    with pytest.raises(UserError, match="name") as caught:
        Agent(name)
    assert str(caught.value).isprintable()


def test_a_clone_shares_the_lists_that_are_not_replaced() -> None:
    agent: Agent[Any] = Agent("a", tools=[function_tool(lookup)], handoffs=[Agent("b")])
    for copy in (agent.clone(name="c"), dataclasses.replace(agent, name="c")):
        assert copy.tools is agent.tools
        assert copy.handoffs is agent.handoffs
    tools = [function_tool(lookup)]
    assert agent.clone(tools=tools).tools is tools


@pytest.mark.parametrize("what", ["x", None, [Agent("a")]])
def test_a_team_accepts_only_agents(what: Any) -> None:
    with pytest.raises(UserError, match="a team needs Agent objects, not"):
        Team(what)


def test_two_agents_with_one_name_are_refused_with_advice() -> None:
    a: Agent[Any] = Agent("a", handoffs=[Agent("b"), handoff(Agent("b"))])
    with pytest.raises(UserError, match="two different agents .* 'b': use one and the same Agent"):
        Team(a)


def test_an_invalid_handoff_added_later_is_found_by_the_team() -> None:
    a: Agent[Any] = Agent("a")
    a.handoffs.append("b")
    with pytest.raises(UserError, match="`handoffs` of agent 'a' has 'b'"):
        Team(a)


def test_a_team_finds_agents_through_cyclic_handoffs() -> None:
    a: Agent[Any] = Agent("a")
    b: Agent[Any] = Agent("b", handoffs=[a, handoff(a)])
    a.handoffs.append(b)
    assert [agent.name for agent in Team(a)] == ["a", "b"]
