"""Every key of an agent file, as it becomes part of a definition."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from ekiden.agents import (
    AgentDefinition,
    AgentFile,
    GuardrailDefinition,
    HandoffDefinition,
    MemoryDefinition,
    Peer,
)
from ekiden.agents.definition import WrittenCondition
from ekiden.core.handoffs import HandoffTrigger
from ekiden.core.profile import Budget, Capability, Confirmation, Triggers

Good = Callable[..., AgentDefinition]

EVERYTHING = dedent(
    """\
    name: debugger
    title: Debugger
    description: Finds out why programs fail.
    handoff_description: Give it a traceback.
    model: openai:gpt-5-mini
    scope: user
    tools:
      allow: [read_file, "shop.tools:refund", mcp:github/issues]
      confirmation:
        require_confirmation: ["shop.tools:refund"]
        prompt_template: "{tool_name} with {tool_args}?"
        timeout: 90
    triggers:
      keywords: [error, 报错]
      patterns: ['Traceback \\(most recent']
      priority: 80
      examples:
        - Why does it crash?
    capabilities:
      - name: debugging
        description: Reads tracebacks.
        proficiency: 0.9
        tags: [python]
      - profiling
    available: false
    max_sessions: 8
    handoffs:
      - to: fixer
        when: auto
        description: When the cause is known.
        include_context: false
        policy: conditional
        condition: error_count < 9
        trigger: {type: event, event: cause_found, priority: 3}
        allow_return: true
        capabilities: [python]
        confirm: {prompt_template: "Hand over?", timeout: 60}
        timeout: 45
        restrict_tools: true
        budget: {tokens: 20000, seconds: 120, money: 0.5}
        completes: result
        filters: [keep_last(20), remove_all_tools]
      - writer
    can_ask: [writer, 会计]
    can_tell: "fixer, writer"
    can_ask_people: [support, 店長]
    guardrails:
      output_schema:
        type: object
        properties: {cause: {type: string, minLength: 1}}
      on_failure: repair
      custom_validator: checks.answers:polite
    memory:
      enabled: true
      type: vector
      backend: sqlite
      scope: app
      top_k: 3
      threshold: 0.4
    runs_on: [gpu, eu/west-1]"""
)


def camel(front: str) -> str:
    """The same front matter with its keys in camelCase."""
    for name in (
        "handoff_description require_confirmation prompt_template include_context allow_return "
        "max_sessions runs_on restrict_tools can_ask can_tell can_ask_people output_schema "
        "on_failure custom_validator"
    ).split():
        first, *rest = name.split("_")
        front = front.replace(f"{name}:", first + "".join(map(str.capitalize, rest)) + ":")
    return front


@pytest.mark.parametrize(
    ("front", "shift"), [(EVERYTHING, 0), (camel(EVERYTHING), 1)], ids=["snake", "camel"]
)
def test_every_key_is_assigned_to_its_field(
    front: str, shift: int, read: Callable[..., AgentFile]
) -> None:
    file = read(front, path="agents/debugger.md")
    assert file.definition == AgentDefinition(
        name="debugger",
        instructions="Do it.",
        path=Path("agents/debugger.md"),
        title="Debugger",
        description="Finds out why programs fail.",
        handoff_description="Give it a traceback.",
        model="openai:gpt-5-mini",
        scope="user",
        tools=("read_file", "shop.tools:refund", "mcp:github/issues"),
        tool_places={
            "read_file": (9, 11),
            "shop.tools:refund": (9, 22),
            "mcp:github/issues": (9, 43),
        },
        require_confirmation=("shop.tools:refund",),
        confirmation_places={"shop.tools:refund": (11, 28 - shift)},
        confirmation=Confirmation(prompt_template="{tool_name} with {tool_args}?", timeout_s=90.0),
        triggers=Triggers(
            keywords=("error", "报错"),
            patterns=("Traceback \\(most recent",),
            priority=80,
            examples=("Why does it crash?",),
        ),
        capabilities=(
            Capability(
                name="debugging",
                description="Reads tracebacks.",
                proficiency=0.9,
                tags=("python",),
            ),
            Capability(name="profiling"),
        ),
        available=False,
        max_sessions=8,
        runs_on=frozenset({"gpu", "eu/west-1"}),
        handoffs=(
            HandoffDefinition(
                to="fixer",
                when="auto",
                description="When the cause is known.",
                include_context=False,
                policy="conditional",
                condition="error_count < 9",
                trigger=HandoffTrigger(type="event", event="cause_found", priority=3),
                allow_return=True,
                capabilities=("python",),
                confirm=Confirmation(prompt_template="Hand over?", timeout_s=60.0),
                timeout_s=45.0,
                restrict_tools=True,
                budget=Budget(tokens=20_000, seconds=120.0, money=0.5),
                completes="result",
                filters=("keep_last(20)", "remove_all_tools"),
                line=29,
                column=5,
            ),
            HandoffDefinition(to="writer", line=44, column=5),
        ),
        can_ask=(
            Peer(name="writer", line=45, column=11 - shift),
            Peer(name="会计", line=45, column=19 - shift),
        ),
        can_tell=(
            Peer(name="fixer", line=46, column=12 - shift),
            Peer(name="writer", line=46, column=19 - shift),
        ),
        can_ask_people=("support", "店長"),
        conditions=(
            WrittenCondition(
                at="handoffs[0].condition", text="error_count < 9", line=34, column=16
            ),
        ),
        guardrails=GuardrailDefinition(
            output_schema={
                "type": "object",
                "properties": {"cause": {"type": "string", "minLength": 1}},
            },
            on_failure="repair",
            custom_validator="checks.answers:polite",
        ),
        memory=MemoryDefinition(
            enabled=True, type="vector", backend="sqlite", scope="app", top_k=3, threshold=0.4
        ),
        line=2,
        column=7,
    )


def test_a_value_equal_to_its_default_causes_no_warning(good: Good) -> None:
    good(
        "name: x\nmemory: {enabled: false}\n"
        "handoffs: [{to: y, when: manual, policy: graceful, allow_return: false}]"
    )


def test_a_file_with_only_a_name_has_default_values(good: Good) -> None:
    definition = good("name: x")
    assert definition.scope == "project"
    assert definition.triggers == Triggers()
    assert definition.triggers.priority == 50
    assert definition.tools == ()
    assert definition.confirmation is None
    assert definition.guardrails is None
    assert definition.memory is None


def test_the_scope_is_that_of_the_folder_unless_the_file_says_otherwise(good: Good) -> None:
    assert good("name: x", scope="user").scope == "user"
    assert good("name: x\nscope: system", scope="user").scope == "system"


@pytest.mark.parametrize(
    "tools",
    [
        "[read_file, shell]",
        "read_file, shell",
        "'read_file,shell,'",
        "{allow: [read_file, shell]}",
        "{allow: 'read_file, shell'}",
        "\n  - read_file\n  - shell",
    ],
)
def test_tools_may_be_a_list_a_text_or_a_mapping(tools: str, good: Good) -> None:
    definition = good(f"name: x\ntools: {tools}")
    assert definition.tools == ("read_file", "shell")
    assert set(definition.tool_places) == {"read_file", "shell"}


@pytest.mark.parametrize(
    "front",
    [
        "tools: {allow: [a], confirmation: {require_confirmation: [a], timeout: 5}}",
        "tools: {allow: [a], require_confirmation: a, confirmation: {timeout: 5}}",
        "tools: {allow: [a], requireConfirmation: [a]}\ntool_confirmation: {timeout: 5}",
        "tools: [a]\ntoolConfirmation: {requireConfirmation: [a], timeout: 5}",
    ],
)
def test_confirmation_may_be_written_in_three_places(front: str, good: Good) -> None:
    definition = good(f"name: x\n{front}")
    assert definition.require_confirmation == ("a",)
    assert definition.confirmation == Confirmation(timeout_s=5.0)


def test_confirmation_without_a_template_and_a_timeout_takes_the_defaults(good: Good) -> None:
    definition = good("name: x\ntools: {allow: [a], confirmation: {require_confirmation: [a]}}")
    assert definition.require_confirmation == ("a",)
    assert definition.confirmation is None


@pytest.mark.parametrize(
    "name",
    ["x", "code-fixer", "Code_Fixer2", "2fast", "退款", "возврат", "हिन्दी", "ค้นหา", "a" * 100],
)
def test_names_are_slugs_in_any_script(name: str, good: Good) -> None:
    assert good(f"name: {name}").name == name


def test_names_are_normalized_to_composed_accents(good: Good) -> None:
    typed = good("name: cafe\u0301\nhandoffs: [re\u0301ne\u0301]")
    assert typed.name == "caf\u00e9"
    assert typed.handoffs[0].to == "r\u00e9n\u00e9"


def test_a_repeated_keyword_is_kept_once(good: Good) -> None:
    keywords = good("name: x\ntriggers: {keywords: [Error, error, ' error ', crash]}")
    assert keywords.triggers.keywords == ("Error", "crash")


def test_a_repeated_tool_is_kept_once(read: Callable[..., AgentFile]) -> None:
    file = read("name: x\ntools: [a, b, a]")
    assert file.definition is not None
    assert file.definition.tools == ("a", "b")
    (problem,) = file.problems
    assert (problem.code, problem.line, problem.column) == ("agent.repeated", 3, 15)


def test_a_pattern_that_matches_everything_is_a_warning(
    read: Callable[..., AgentFile],
) -> None:
    file = read("name: x\ntriggers:\n  patterns: ['.*', 'a|', 'fine']")
    assert file.definition is not None
    assert [problem.code for problem in file.problems] == ["agent.broad_pattern"] * 2


def test_nested_json_keeps_its_types(good: Callable[..., Any], read: Any) -> None:
    front = "name: x\nguardrails: {output_schema: {a: [1, 2.5, true, null, '1', {b: ~}]}}"
    guardrails = read(front).definition.guardrails
    assert guardrails.output_schema == {"a": [1, 2.5, True, None, "1", {"b": None}]}


@pytest.mark.parametrize(
    ("said", "roles"),
    [
        ("true", ("operator",)),
        ("false", ()),
        ("[]", ()),
        ("head of sales, 店長", ("head of sales", "店長")),
    ],
)
def test_can_ask_people_takes_roles_or_true_for_the_default_role(
    said: str, roles: tuple[str, ...], good: Good
) -> None:
    assert good(f"name: x\ncan_ask_people: {said}").can_ask_people == roles


def test_names_of_peers_are_normalized_to_composed_accents(good: Good) -> None:
    [peer] = good("name: x\ncan_ask: [cafe\u0301]").can_ask
    assert peer.name == "caf\u00e9"
