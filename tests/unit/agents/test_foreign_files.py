"""Files that were written for other tools."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ekiden.agents import AgentFile
from ekiden.core.conversation.model import ModelSettings
from ekiden.core.profile import Budget
from ekiden.core.text.wording import BUILTIN_TOOLS, MODEL_ALIASES

Read = Callable[..., AgentFile]


def codes(file: AgentFile) -> list[str]:
    assert all(problem.severity == "warning" for problem in file.problems)
    return [problem.code.removeprefix("agent.") for problem in file.problems]


def test_a_claude_file_loads_unchanged(read: Read) -> None:
    file = read(
        "name: code-reviewer\n"
        'description: Use this agent after writing code. Examples: <example>user: "done"\n'
        "tools: Read, Edit, Write, Grep, Bash, WebFetch, Task, mcp__github__list_issues\n"
        "model: sonnet\n"
        "color: red\n"
        "memory: user\n"
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
        "edit_file",
        "write_file",
        "grep",
        "shell",
        "http_get",
        "mcp__github__list_issues",
    )
    assert definition.tool_places["shell"][0] == 4
    assert definition.model == MODEL_ALIASES["sonnet"]
    assert definition.memory is None
    assert codes(file) == ["literal_text", "tools_left_out"]
    assert "Task" in file.problems[1].message


def test_a_gemini_file_loads_unchanged(read: Read) -> None:
    file = read(
        "name: tester\ndisplay_name: The Tester\nkind: local\ntemperature: 0.2\nmax_turns: 30\n"
        "tools:\n  - read_file\n  - replace\n  - run_shell_command\n  - google_web_search\n"
        "  - mcp_github_*\nmodel: gemini-2.0-flash\ntimeout_mins: 5",
        origin="gemini",
    )
    definition = file.definition
    assert definition is not None
    assert definition.title == "The Tester"
    tools = ("read_file", "edit_file", "shell", "web_search", "mcp__github__*")
    assert definition.tools == tools
    assert definition.tool_places["shell"][0] == 10
    assert definition.model == "google:gemini-2.0-flash"
    assert definition.model_settings == ModelSettings(temperature=0.2)
    assert definition.budget == Budget(seconds=300)
    assert codes(file) == []


def test_a_description_may_have_lines_that_look_like_keys(read: Read) -> None:
    file = read(
        "name: x\n"
        "description: Use it when asked. Examples:\\n\\n<example>\\nContext: a new app\n"
        'user: "We need a brand"\n'
        'assistant: "I will make one: now"\n'
        "</example>\n"
        "color: indigo\n"
        "tools: Read, Write\n"
        "disallowedTools: Write",
        origin="claude",
    )
    assert file.definition is not None
    assert file.definition.description is not None
    assert file.definition.description.startswith("Use it when asked. Examples:\n\n<example>")
    assert file.definition.description.endswith("</example>")
    assert file.definition.tools == ("read_file",)
    assert codes(file) == ["literal_text"]


@pytest.mark.parametrize(
    ("front", "expected", "line"),
    [
        ("name: x\ntools:\n\t- Read\nmodel:\tsonnet", ["tab"], 4),
        ('name: x\ntools: [Read]\ndescription: "a "b" c"', ["literal_text"], 4),
        ("name: x\ntools: [Read]\nextra: [a, b", ["passed_over"], 4),
        ("name: x\ntools: [Read]\nunknown: [{x: &y 1}]", ["passed_over"], 4),
        ("name: x\ntools: [Read]\nname: y", ["passed_over"], 4),
        ("name: x\ntools: [Read]\ntemperature: hot", ["passed_over"], 4),
    ],
)
def test_a_fault_in_a_foreign_file_is_a_warning_with_its_line(
    front: str, expected: list[str], line: int, read: Read
) -> None:
    file = read(front, origin="claude")
    assert file.definition is not None
    assert file.definition.tools == ("read_file",)
    assert codes(file) == expected
    assert file.problems[0].line == line


@pytest.mark.parametrize("origin", ["claude", "gemini", "agents"])
@pytest.mark.parametrize(
    ("front", "tools", "asked"),
    [
        ("disallowedTools: Bash, Write", "read_file grep", ""),
        ("disallowed-tools: [Bash(rm:*), Write]", "read_file grep", ""),
        ("excludeTools: ['*']", "", ""),
        ("deny: [run_shell_command]", "read_file write_file grep", ""),
        ("permissionMode: plan", "read_file grep", ""),
        ("permission_mode: dontAsk", "read_file grep", ""),
        ("permissionMode: acceptEdits", "read_file write_file grep shell", "shell"),
        ("permissionMode: bypassPermissions", "read_file write_file grep shell", ""),
        ("readonly: true", "read_file grep", ""),
        ("sandbox_mode: read-only", "read_file grep", ""),
        ("permission: {edit: deny, bash: ask}", "read_file grep shell", "shell"),
        ("permission: {bash: {'*': allow, 'rm *': deny}}", "read_file write_file grep", ""),
        ("permissions: {deny: [Bash], ask: [Write]}", "read_file write_file grep", "write_file"),
        (
            "confirmation: true",
            "read_file write_file grep shell",
            "read_file write_file grep shell",
        ),
        ("require_confirmation: [Bash]", "read_file write_file grep shell", "shell"),
        ("needs-approval: Bash, Write", "read_file write_file grep shell", "write_file shell"),
        ("tool_confirmation: {requireConfirmation: [shell], timeout: 9}", None, "shell"),
        ("approval_policy: on-request", None, "read_file write_file grep shell"),
        ("guardrails: {output_schema: {type: object}}", None, ""),
        ("hooks: {Stop: [{command: x}]}", None, ""),
    ],
)
def test_a_restriction_of_a_foreign_file_is_applied(
    origin: Any, front: str, tools: str | None, asked: str, read: Read
) -> None:
    file = read(f"name: x\ntools: Read, Write, Grep, Bash\n{front}", origin=origin)
    assert file.definition is not None, file.problems
    expected = "read_file write_file grep shell" if tools is None else tools
    assert file.definition.tools == tuple(expected.split())
    assert file.definition.require_confirmation == tuple(asked.split())
    assert (file.definition.guardrails is not None) is front.startswith("guardrails")


@pytest.mark.parametrize("origin", ["claude", "gemini", "agents"])
@pytest.mark.parametrize(
    "front",
    [
        "guardrails: strict",
        "guardrails: {no_such_key: 1}",
        "guardrails:\n  output_schema: [",
        "confirmation: {who: [alice]}",
        "confirmation: {require_confirmation: [Bsh]}",
        "require_confirmation: [Bash, Wrte]",
        "approval: two people of the team",
        "permissionMode: wizard",
        "permissions: {bash: maybe}",
        "hooks: {PreToolUse: [{matcher: Bash, command: ./check}]}",
        "isolation: worktree",
        "sandbox: docker",
        "allowed_paths: [src]",
        "safety: {level: high}",
        "config: {nested: [{requires-approval: [Bash]}]}",
        "tools: [Read]",
        "disallowedTools: {Bash: {args: rm}}",
        "disable-model-invocation: true",
        "timeout: 5m",
        "human_in_the_loop: true",
    ],
)
def test_a_restriction_that_is_unknown_refuses_the_file(
    origin: Any, front: str, read: Read
) -> None:
    file = read(f"name: x\ntools: Read, Bash\n{front}", origin=origin)
    assert file.definition is None
    errors = [problem for problem in file.problems if problem.severity == "error"]
    assert errors
    assert errors[0].line >= 4


@pytest.mark.parametrize(
    "front",
    ["guardrails: {}", "approval: false", "permissions: ~", "hooks: {}", "sandbox: off"],
)
def test_an_empty_restriction_is_ignored(front: str, read: Read) -> None:
    file = read(f"name: x\ntools: Read, Bash\n{front}", origin="gemini")
    assert file.definition is not None
    assert file.definition.tools == ("read_file", "shell")


def test_denying_one_tool_of_a_server_drops_the_whole_server(read: Read) -> None:
    file = read(
        "name: x\ntools: [Read, mcp__github]\ndisallowedTools: mcp__github__delete", origin="claude"
    )
    assert file.definition is not None
    assert file.definition.tools == ("read_file",)


def test_a_disabled_file_is_skipped(read: Read) -> None:
    file = read("name: x\ndisabled: true", origin="claude")
    assert file.definition is None
    assert codes(file) == ["not_an_agent"]


def test_instructions_in_the_front_matter_are_read(read: Read) -> None:
    file = read("name: x\ntools: []\nsystemPrompt: Be kind.", origin="agents")
    assert file.definition is not None
    assert file.definition.instructions == "Be kind.\n\nDo it."


@pytest.mark.parametrize("model", ["inherit", "", "~"])
def test_a_model_that_means_the_default_causes_no_warning(model: str, read: Read) -> None:
    file = read(f"name: x\ntools: [Read]\nmodel: {model}", origin="claude")
    assert file.definition is not None
    assert file.definition.model is None
    assert codes(file) == []


def test_an_unknown_model_is_replaced_by_the_model_of_the_team(read: Read) -> None:
    file = read("name: x\ntools: [Read]\nmodel: swift", origin="claude")
    assert file.definition is not None
    assert file.definition.model is None
    assert codes(file) == ["model_of_the_team"]


def test_a_model_with_provider_is_used(read: Read) -> None:
    file = read("name: x\ntools: [Read]\nmodel: anthropic:claude-opus-4", origin="agents")
    assert file.definition is not None
    assert file.definition.model == "anthropic:claude-opus-4"
    assert codes(file) == []


@pytest.mark.parametrize("front", ["name: x", "name: x\ntools:", "name: x\ntools: '*'"])
def test_a_wildcard_for_all_tools_means_the_built_in_tools(front: str, read: Read) -> None:
    file = read(f"{front}\ndisallowedTools: Bash", origin="claude")
    assert file.definition is not None
    assert sorted(file.definition.tools) == [each for each in BUILTIN_TOOLS if each != "shell"]
    assert codes(file) == []


def test_a_restricted_tool_is_dropped_rather_than_unrestricted(read: Read) -> None:
    file = read("name: x\ntools: Read, Bash(git diff:*, git log), Write", origin="claude")
    assert file.definition is not None
    assert file.definition.tools == ("read_file", "write_file")
    assert "Bash(git diff:*, git log)" in file.problems[0].message


@pytest.mark.parametrize(
    ("tools", "left"),
    [
        ("Read, Bash(git log:*), Bash(npm test)", "read_file shell(git_log_*) shell(npm_test)"),
        ("Bash(git log:*)\ndisallowedTools: Bash", ""),
        ("Bash(git log:*)\nmode: plan", ""),
        ("Bash, Read\nallowed-tools: Bash(git log *)", "shell(git_log_*)"),
        ("Bash(git log:*)\nallowed-tools: Bash(rm:*)", ""),
        ("Bash(git log; rm:*)", ""),
        ("Bash(git $(x):*)", ""),
        ("Bash(git * log)", ""),
        ("Write(src/*)", ""),
    ],
)
def test_a_shell_limited_to_some_commands_is_not_widened(tools: str, left: str, read: Read) -> None:
    file = read(f"name: x\ntools: {tools}", origin="claude")
    assert file.definition is not None
    assert [name.replace(" ", "_") for name in file.definition.tools] == left.split()


def test_denied_tools_stay_denied(read: Read) -> None:
    file = read("name: x\ntools: Read, Bash\ndisallowedTools: Bash", origin="claude")
    assert file.definition is not None
    assert file.definition.tools == ("read_file",)
    assert codes(file) == []


def test_tools_may_be_a_mapping_of_booleans(read: Read) -> None:
    file = read("name: x\ntools: {Read: true, Bash: false}", origin="agents")
    assert file.definition is not None
    assert file.definition.tools == ("read_file",)


def test_a_name_that_is_no_slug_is_slugified(read: Read) -> None:
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
def test_an_unsupported_agent_kind_is_skipped_with_a_warning(front: str, read: Read) -> None:
    file = read(front, origin="gemini")
    assert file.definition is None
    assert codes(file) == ["not_an_agent"]


def test_a_readme_among_the_agent_files_is_no_error(read: Read) -> None:
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
    ],
)
def test_values_of_unexpected_types_are_ignored(front: str, expected: Any, read: Read) -> None:
    file = read(f"name: x\ntools: []\n{front}", origin="claude")
    assert file.definition is not None
    assert codes(file) == expected


@pytest.mark.parametrize("front", ["maxTurns: 3", "topP: abc", "displayName: [a]"])
def test_a_warning_names_the_key_as_written(front: str, read: Read) -> None:
    [problem] = read(f"name: x\ntools: []\n{front}", origin="claude").problems
    assert f"`{front.partition(':')[0]}`" in problem.message


def test_many_tools_without_a_counterpart_make_one_short_warning(read: Read) -> None:
    names = ", ".join(f"Tool{each}" for each in range(100))
    file = read(f"name: x\ntools: {names}", origin="claude")
    assert codes(file) == ["tools_left_out"]
    assert file.problems[0].message.endswith("Tool19, …")
