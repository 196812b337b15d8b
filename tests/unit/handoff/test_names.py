"""Names of handoffs: valid for every provider, and different for different agents."""

from __future__ import annotations

import logging
import re
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from ekiden.core.agent import Agent
from ekiden.core.errors import UserError
from ekiden.core.handoffs import Handoff, transfer_tool_name
from ekiden.core.tools.tool import FunctionTool
from ekiden.handoff import handoff, resolve_tool_name_collisions
from tests.support.cases import each_case


@settings(deadline=None)
@given(st.text(min_size=1))
def test_every_name_gives_a_valid_tool_name(name: str) -> None:
    assert re.fullmatch(r"transfer_to_[a-z0-9_]{1,52}", transfer_tool_name(name))


@each_case(
    ("name", "tool_name"),
    [
        ("Refund agent", "transfer_to_refund_agent"),
        ("code-fixer", "transfer_to_code_fixer"),
        ("Tier 2 (EU)", "transfer_to_tier_2__eu_"),
        ("退款", "transfer_to_5f322c3c"),
        ("退款 agent", "transfer_to_agent_1c8c9361"),
        ("Café", "transfer_to_cafe_596c6db1"),
    ],
)
def test_a_name_is_the_same_on_every_machine(name: str, tool_name: str) -> None:
    assert transfer_tool_name(name) == tool_name


def test_names_with_characters_a_tool_name_lacks_stay_distinct() -> None:
    names = [
        "退款",
        "退货",
        "退款 ",
        "возврат",
        "возврaт",
        "x" * 60,
        "x" * 61,
        "cafe",
        "café",
        "//",
    ]
    assert len({transfer_tool_name(name) for name in names}) == len(names)


@pytest.mark.parametrize("name", ["Refund agent", "code-fixer", "退款", "snake_case"])
def test_ordinary_agent_names_log_no_warning(name: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        Handoff.default_tool_name(Agent(name))
    assert not caplog.records


def a_tool(name: str) -> FunctionTool:
    async def run(ctx: Any, arguments: str) -> None: ...

    return FunctionTool(name, "", {}, run)


def test_different_names_are_left_as_they_are() -> None:
    tools = [a_tool("a"), a_tool("b")]
    offers: list[Handoff[Any, Any]] = [handoff(Agent("a")), handoff(Agent("b"))]
    assert resolve_tool_name_collisions(tools, offers) == (tools, offers)


@pytest.mark.parametrize(
    ("tools", "handoffs", "told"),
    [
        ([a_tool("x"), a_tool("x")], [], "used by multiple tools"),
        ([a_tool("transfer_to_a")], [handoff(Agent("a"))], "the handoff to 'a'"),
        ([], [handoff(Agent("A b")), handoff(Agent("a B"))], "'A b' and 'a B' both derive"),
        (
            [],
            [handoff(Agent("a")), handoff(Agent("b"), tool_name_override="transfer_to_a")],
            "used by multiple handoffs",
        ),
    ],
)
def test_a_duplicate_tool_name_is_refused_or_resolved_with_a_warning(
    tools: list[FunctionTool],
    handoffs: list[Handoff[Any, Any]],
    told: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    with pytest.raises(UserError, match=told):
        resolve_tool_name_collisions(tools, handoffs)
    with caplog.at_level(logging.WARNING):
        kept = resolve_tool_name_collisions(tools, handoffs, collision_policy="warn")
    assert [*kept[0], *kept[1]] == [*tools, *handoffs][-1:]
    assert told in caplog.text
