"""Names of servers' tools."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, strategies as st

from ekiden.core.errors import UnknownTool
from ekiden.tools.mcp_servers import ToolReference, read_name, tool_name
from tests.support.cases import each_case

NAMES = st.text(max_size=80)


@each_case(
    ("name", "reference"),
    [
        ("mcp:git", ToolReference(server="git", tool=None)),
        ("mcp:git/", ToolReference(server="git", tool=None)),
        ("mcp:git/*", ToolReference(server="git", tool=None)),
        ("mcp:git/log", ToolReference(server="git", tool="log")),
        ("mcp:git/a/b", ToolReference(server="git", tool="a/b")),
        ("mcp:git/hub/log", ToolReference(server="git/hub", tool="log")),
        ("mcp__git", ToolReference(server="git", tool=None, is_function_style=True)),
        ("mcp__git__log", ToolReference(server="git", tool="log", is_function_style=True)),
        ("mcp__git_hub__log", ToolReference(server="git/hub", tool="log", is_function_style=True)),
        ("mcp__my__own__log", ToolReference(server="my__own", tool="log", is_function_style=True)),
    ],
)
def test_a_name_refers_to_a_server_and_a_tool(name: str, reference: ToolReference) -> None:
    assert read_name(name, ["git", "git/hub", "my__own", "my"]) == reference


@pytest.mark.parametrize("name", ["mcp:gti/log", "mcp:", "mcp__", "mcp:gitx", "mcp__gitx__log"])
def test_an_unknown_server_is_named(name: str) -> None:
    with pytest.raises(UnknownTool, match="names no server of the setting mcpServers"):
        read_name(name, ["git"])


def test_a_name_in_function_style_refers_to_its_tool() -> None:
    reference = read_name("mcp__git__show_log", ["git"])
    assert reference.matches("show.log")
    assert reference.matches("show_log")
    assert not reference.matches("log")
    assert not read_name("mcp:git/show_log", ["git"]).matches("show.log")


def test_a_plain_tool_name_stays_readable() -> None:
    assert tool_name("github", "list-issues") == "github__list-issues"


def test_a_used_tool_name_is_not_assigned_again() -> None:
    first = tool_name("a", "b", taken={"a__b"})
    second = tool_name("a", "b", taken={"a__b", first})
    assert len({"a__b", first, second}) == 3


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("a__b", "c"), ("a", "b__c")),
        (("a_", "_b"), ("a__", "b")),
        (("a.b", "c"), ("a_b", "c")),
        (("日本", "x"), ("中国", "x")),
        (("s", "x" * 100), ("s", "x" * 101)),
    ],
)
def test_different_tools_have_different_names(one: tuple[str, str], other: tuple[str, str]) -> None:
    assert tool_name(*one) != tool_name(*other)


@given(server=NAMES, tool=NAMES)
def test_every_tool_name_is_valid_for_every_provider(server: str, tool: str) -> None:
    assert re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", tool_name(server, tool))
    assert tool_name(server, tool) == tool_name(server, tool)
