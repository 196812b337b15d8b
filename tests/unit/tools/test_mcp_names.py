"""Names of servers' tools."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, strategies as st

from ekiden.core.errors import UnknownTool
from ekiden.tools.mcp.content import Wish, read_name, tool_name
from tests.support.cases import each_case

NAMES = st.text(max_size=80)


@each_case(
    ("name", "wish"),
    [
        ("mcp:git", Wish(server="git", tool=None)),
        ("mcp:git/", Wish(server="git", tool=None)),
        ("mcp:git/*", Wish(server="git", tool=None)),
        ("mcp:git/log", Wish(server="git", tool="log")),
        ("mcp:git/a/b", Wish(server="git", tool="a/b")),
        ("mcp:git/hub/log", Wish(server="git/hub", tool="log")),
        ("mcp__git", Wish(server="git", tool=None, is_function_style=True)),
        ("mcp__git__log", Wish(server="git", tool="log", is_function_style=True)),
        ("mcp__git_hub__log", Wish(server="git/hub", tool="log", is_function_style=True)),
        ("mcp__my__own__log", Wish(server="my__own", tool="log", is_function_style=True)),
    ],
)
def test_a_name_says_which_server_and_which_tool(name: str, wish: Wish) -> None:
    assert read_name(name, ["git", "git/hub", "my__own", "my"]) == wish


@pytest.mark.parametrize("name", ["mcp:gti/log", "mcp:", "mcp__", "mcp:gitx", "mcp__gitx__log"])
def test_a_server_that_is_not_there_is_named(name: str) -> None:
    with pytest.raises(UnknownTool, match="names no server of the setting mcpServers"):
        read_name(name, ["git"])


def test_a_name_in_function_style_means_the_tool_behind_it() -> None:
    wish = read_name("mcp__git__show_log", ["git"])
    assert wish.wants("show.log")
    assert wish.wants("show_log")
    assert not wish.wants("log")
    assert not read_name("mcp:git/show_log", ["git"]).wants("show.log")


def test_a_plain_name_stays_readable() -> None:
    assert tool_name("github", "list-issues") == "github__list-issues"


def test_a_name_that_is_taken_is_not_given_again() -> None:
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
def test_every_provider_takes_every_name(server: str, tool: str) -> None:
    assert re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", tool_name(server, tool))
    assert tool_name(server, tool) == tool_name(server, tool)
