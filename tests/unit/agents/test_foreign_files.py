"""Files that were written for other tools."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ekiden.agents import AgentFile

Read = Callable[..., AgentFile]


def codes(file: AgentFile) -> list[str]:
    assert all(problem.severity == "warning" for problem in file.problems)
    return [problem.code.removeprefix("agent.") for problem in file.problems]


def test_a_claude_file_loads_as_it_is(read: Read) -> None:
    file = read(
        "name: code-reviewer\n"
        'description: Use this agent after writing code. Examples: <example>user: "done"\n'
        "tools: Read, Edit, Write, Grep, Bash, WebFetch, mcp__github__list_issues\n"
        "model: sonnet\n"
        "color: red\n"
        "memory: user\n"
        "permissionMode: plan\n"
        "hooks: {PreToolUse: []}",
        origin="claude",
    )
    definition = file.definition
    assert definition is not None
    assert definition.name == "code-reviewer"
    assert definition.origin == "claude"
    assert definition.description is not None
    assert definition.description.endswith('<example>user: "done"')
    assert definition.tools == (
        "read_file",
        "write_file",
        "shell",
        "http_get",
        "mcp__github__list_issues",
    )
    assert definition.tool_places["shell"][0] == 4
    assert definition.model is None
    assert definition.memory is None
    assert codes(file) == ["literal_text", "tools_left_out", "model_of_the_team"]
    assert "Grep" in file.problems[1].message


def test_a_gemini_file_loads_as_it_is(read: Read) -> None:
    file = read(
        "name: tester\ndisplay_name: The Tester\nkind: local\ntemperature: 0.2\nmax_turns: 10\n"
        "tools:\n  - read_file\n  - replace\n  - run_shell_command\n  - web_fetch\n  - '*'\n"
        "model: gemini-2.5-pro",
        origin="gemini",
    )
    assert file.definition is not None
    assert file.definition.title == "The Tester"
    assert file.definition.tools == ("read_file", "write_file", "shell", "http_get")
    assert file.definition.tool_places["shell"][0] == 10
    assert codes(file) == ["tools_left_out", "model_of_the_team"]


@pytest.mark.parametrize("model", ["inherit", "", "~"])
def test_the_model_of_the_team_is_nothing_to_warn_about(model: str, read: Read) -> None:
    file = read(f"name: x\ntools: [Read]\nmodel: {model}", origin="claude")
    assert file.definition is not None
    assert file.definition.model is None
    assert [code for code in codes(file) if model] == (
        ["model_of_the_team"] if model == "~" else []
    )


def test_a_model_with_its_provider_is_taken(read: Read) -> None:
    file = read("name: x\ntools: [Read]\nmodel: anthropic:claude-opus-4", origin="agents")
    assert file.definition is not None
    assert file.definition.model == "anthropic:claude-opus-4"
    assert codes(file) == []


@pytest.mark.parametrize("front", ["name: x", "name: x\ntools:", "name: x\ntools: ~"])
def test_all_tools_of_another_program_are_none_here(front: str, read: Read) -> None:
    file = read(front, origin="claude")
    assert file.definition is not None
    assert file.definition.tools == ()
    assert codes(file) == ["no_tools"]


def test_a_restricted_tool_does_not_become_an_unrestricted_one(read: Read) -> None:
    file = read("name: x\ntools: Read, Bash(git diff:*, git log), Write", origin="claude")
    assert file.definition is not None
    assert file.definition.tools == ("read_file", "write_file")
    assert "Bash(git diff:*, git log)" in file.problems[0].message


def test_refused_tools_stay_refused(read: Read) -> None:
    file = read("name: x\ntools: Read, Bash\ndisallowedTools: Bash", origin="claude")
    assert file.definition is not None
    assert file.definition.tools == ("read_file",)
    assert codes(file) == []


def test_tools_may_be_switched_on_in_a_mapping(read: Read) -> None:
    file = read("name: x\ntools: {Read: true, Bash: false}", origin="agents")
    assert file.definition is not None
    assert file.definition.tools == ("read_file",)


def test_a_name_that_is_no_slug_becomes_one(read: Read) -> None:
    file = read("name: Code Reviewer (EU)\ntools: []", origin="claude")
    assert file.definition is not None
    assert file.definition.name == file.name == "code-reviewer-eu"
    assert codes(file) == ["renamed"]


@pytest.mark.parametrize(
    "front",
    [
        "description: x",
        "name: ''",
        "name: '!!!'",
        "name: user",
        "name: [x]",
        "name: x\nkind: remote",
    ],
)
def test_what_is_no_agent_here_is_left_out_with_a_warning(front: str, read: Read) -> None:
    file = read(front, origin="gemini")
    assert file.definition is None
    assert codes(file) == ["not_an_agent"]


def test_a_read_me_among_the_files_is_no_error(read: Read) -> None:
    from ekiden.agents import read_agent_text

    file = read_agent_text("# Our agents\n", origin="claude")
    assert file.definition is None
    assert codes(file) == ["not_an_agent"]


@pytest.mark.parametrize(
    ("front", "expected"),
    [
        ("description: [a]", ["passed_over"]),
        ("description: 42", []),
        ("description:", []),
        ('description: "\\e[31m"', ["passed_over"]),
        ("unknown: [{x: &y 1}]", None),
    ],
)
def test_strange_values_are_passed_over(front: str, expected: Any, read: Read) -> None:
    file = read(f"name: x\ntools: []\n{front}", origin="claude")
    if expected is None:
        assert [problem.code for problem in file.problems] == ["agent.yaml_alias"]
        return
    assert file.definition is not None
    assert codes(file) == expected


def test_many_tools_without_a_counterpart_make_one_short_warning(read: Read) -> None:
    names = ", ".join(f"Tool{each}" for each in range(100))
    file = read(f"name: x\ntools: {names}", origin="claude")
    assert codes(file) == ["tools_left_out"]
    assert file.problems[0].message.endswith("Tool19, …")
