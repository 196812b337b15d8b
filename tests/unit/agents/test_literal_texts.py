"""Descriptions that are not YAML but plainly meant."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ekiden.agents import AgentFile


@pytest.mark.parametrize(
    "text",
    [
        "Use this: when the build fails",
        'Use this agent when… Examples: <example>user: "x"</example> # and more',
        "# 1 for bugs",
        "[NEW] finds bugs",
        "*Always* use this",
        "@team: the tester",
        "%100 sure",
        "`code` reader",
        "!important reader",
        "&c: and so on",
        ">50 % faster: yes",
        "{curly} and more",
        "ends with a colon:",
        "报错: 处理",
        "a\tb: c",
    ],
)
@pytest.mark.parametrize("key", ["description", "title", "handoffDescription"])
def test_a_text_that_is_invalid_yaml_is_read_literally_with_a_warning(
    text: str, key: str, read: Callable[..., AgentFile]
) -> None:
    file = read(f"name: x\n{key}: {text}\nmodel: a:b")
    assert file.definition is not None
    definition = file.definition
    found = [definition.description, definition.title, definition.handoff_description]
    assert [each for each in found if each] == [text]
    assert definition.model == "a:b"
    (problem,) = file.problems
    assert (problem.code, problem.severity) == ("agent.literal_text", "warning")
    assert (problem.line, problem.column) == (3, len(key) + 3)


def test_indented_lines_belong_to_the_literal_text(read: Callable[..., AgentFile]) -> None:
    file = read("name: x\ndescription: Use: this\n  or: that\n\n  - and this\n\nmodel: a:b")
    assert file.definition is not None
    assert file.definition.description == "Use: this or: that\n- and this"
    assert file.definition.model == "a:b"


def test_a_literal_text_is_read_beside_keys_for_the_complete_parser(
    read: Callable[..., AgentFile],
) -> None:
    file = read("description: Use: this\nname: 'x'\ntriggers: {priority: 7}\ntitle: a: b")
    assert file.definition is not None
    assert file.definition.triggers.priority == 7
    assert [problem.line for problem in file.problems] == [2, 5]


def test_a_literal_text_may_be_the_only_key(read: Callable[..., AgentFile]) -> None:
    file = read("description: Use: this")
    codes = {problem.code for problem in file.problems}
    assert codes == {"agent.literal_text", "agent.missing_key"}


def test_a_text_that_is_valid_yaml_is_read_as_yaml(good: Callable[..., Any]) -> None:
    definition = good("name: x\ndescription: Bugs # all of them\ntitle: 'a: b'")
    assert (definition.description, definition.title) == ("Bugs", "a: b")


@pytest.mark.parametrize(
    ("front", "code", "line"),
    [
        ("model: Use: this", "yaml_syntax", 3),
        ("triggers:\n  examples:\n    - Use: this: now", "yaml_syntax", 5),
        ("triggers:\n  description: a: b", "yaml_syntax", 4),
        ('description: "a" b', "yaml_syntax", 3),
        ("description: 'a", "yaml_syntax", 4),
        ("description: [a, b]", "wrong_type", 3),
        ("description: {a: b}", "wrong_type", 3),
        ("description:", "wrong_type", 3),
        ("description: ''", "empty_value", 3),
    ],
)
def test_other_invalid_yaml_is_an_error(
    front: str, code: str, line: int, faults: Callable[..., list[Any]]
) -> None:
    ((found, at, _),) = faults(front)
    assert (found, at) == (code, line)


def test_a_fault_of_another_key_is_reported_beside_the_literal_text(
    read: Callable[..., AgentFile],
) -> None:
    file = read("name: x\ndescription: Use: this\nmodel: a: b")
    assert file.definition is None
    assert [(problem.code, problem.line) for problem in file.problems] == [
        ("agent.literal_text", 3),
        ("agent.yaml_syntax", 4),
    ]


@pytest.mark.parametrize(
    "front",
    [
        "name: x\ndescription: Use: this\nmodel: a:b",
        "description: Use: this\n  or: that\n\nname: x\ntitle: '# x'",
        "title: @a\n# why\ndescription: %b\nname: x\ntools:\n- a\n- b",
        "name: x\ndescription: *a: b\ntriggers:\n  keywords: [a]",
        "name: x\ndescription: a: b\nmodel: c: d",
        "name: x\ndescription: a\t#: b",
        "name: 'x\ndescription: a: b'",
        'name: x\nmodel: "a\ndescription: b: c"\ntools: [Read',
        "name: x\ndescription: a: b\nuser: c\n<x>: d\ntools: Read, Bash\nnotes: |\n  e",
    ],
)
@pytest.mark.parametrize("origin", ["ekiden", "claude"])
def test_the_fast_and_the_complete_parser_read_literal_texts_alike(
    front: str, origin: str, read: Callable[..., AgentFile], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = read(front, origin=origin)
    monkeypatch.setattr("ekiden.agents.front_matter._quick_with_literals", lambda *given: None)
    monkeypatch.setattr("ekiden.agents.front_matter._is_literal", lambda *given: False)
    assert read(front, origin=origin) == file
