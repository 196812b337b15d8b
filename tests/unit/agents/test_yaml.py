"""Front matter that is YAML, is not, or tries to be more than that."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ekiden.agents import AgentFile


@pytest.mark.parametrize(
    ("front", "code", "line", "column"),
    [
        ("model: [a", "yaml_syntax", 3, 8),
        ("model: 'a", "yaml_syntax", 4, 1),
        ('model: "\\q"', "yaml_syntax", 3, 10),
        ('model: "\\U00ffffff"', "yaml_syntax", 2, 1),
        ("model: a: b", "yaml_syntax", 3, 9),
        ("model: @a", "yaml_syntax", 3, 8),
        ("model: `a`", "yaml_syntax", 3, 8),
        ("model: - a", "yaml_syntax", 3, 8),
        ("model: {a: b", "yaml_syntax", 3, 8),
        ("model: | a", "yaml_syntax", 3, 10),
        ("just words\nmodel: x", "yaml_syntax", 4, 1),
        ("triggers:\n\tpriority: 1", "yaml_syntax", 4, 1),
        ("triggers:\n    priority: 1\n  keywords: []", "yaml_syntax", 5, 3),
        ("? [a]\n: b", "yaml_syntax", 3, 3),
        ("...\nmodel: x", "yaml_syntax", 4, 1),
        ("--- \x20x\nmodel: x", "yaml_syntax", 3, 1),
        ("model: \x1b[31m", "yaml_syntax", 3, 8),
        ("model: &a b", "yaml_alias", 3, 8),
        ("model: *a", "yaml_alias", 3, 8),
        ("triggers: &a {keywords: [*a]}", "yaml_alias", 3, 11),
        ("model: !!python/object:os.system x", "yaml_tag", 3, 8),
        ("model: !x y", "yaml_tag", 3, 8),
        ("triggers: " + "[" * 21, "too_deep", 3, 30),
        ("triggers: [" + "1," * 10_001 + "]", "too_large", 3, 20_002),
    ],
)
def test_each_yaml_error_has_a_code_line_and_column(
    front: str, code: str, line: int, column: int, faults: Callable[..., list[Any]]
) -> None:
    assert faults(front) == [(code, line, column)]


@pytest.mark.parametrize(
    ("front", "advice"),
    [
        ("model: a: b", "in quotes"),
        ("model: @a", "in quotes"),
        ("model: 'a", "close it"),
        ("model:\n\ta: b", "spaces"),
        ("model: - a", "next line"),
        ("model: | a", "on the next lines"),
        ("model: \x07", "U+0007"),
        ("model: !x y", "leave it out"),
        ("model: !<x y", "this is not YAML"),
        ("%FOO", "this is not YAML"),
    ],
)
def test_every_yaml_error_has_advice(
    front: str, advice: str, read: Callable[..., AgentFile]
) -> None:
    (problem,) = read(f"name: x\n{front}").problems
    assert advice in problem.message
    assert problem.message.isprintable()


@pytest.mark.parametrize(
    ("front", "line", "column", "advice"),
    [
        ("tools: [a, b", 3, 8, "this [ is never closed; write ] behind the last item"),
        ("tools: [", 3, 8, "this [ is never closed"),
        ("tools: [a,", 3, 8, "this [ is never closed"),
        ("tools: [a, b\nmodel: x:y", 3, 8, "or a comma is missing before the next line"),
        ("tools: [a,\n  b\nmodel: x:y", 3, 8, "or a comma is missing before a line below"),
        ("tools: {allow: [a}", 3, 16, "this [ is never closed"),
        ("tools: {allow: [a]\nmodel: x:y", 3, 8, "this { is not closed"),
        ("tools: {allow: [a], confirmation: {", 3, 35, "this { is never closed; write }"),
        ("tools: ['a' 'b']", 3, 13, "a comma is missing before this"),
        ("tools: [\n  'a'\n  'b'\n]", 5, 3, "a comma is missing before this"),
    ],
)
def test_an_unclosed_bracket_is_located(
    front: str, line: int, column: int, advice: str, read: Callable[..., AgentFile]
) -> None:
    (problem,) = read(f"name: x\n{front}").problems
    assert (problem.line, problem.column) == (line, column)
    assert advice in problem.message


def test_aliases_that_expand_exponentially_are_refused(faults: Callable[..., list[Any]]) -> None:
    first = "a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol]"
    more = [f"a{each}: &a{each} [{', '.join([f'*a{each - 1}'] * 9)}]" for each in range(1, 10)]
    assert faults("\n".join([first, *more])) == [("yaml_alias", 3, 5)]


def test_keys_may_be_quoted_and_values_written_in_every_style(
    good: Callable[..., Any],
) -> None:
    definition = good(
        "'name': \"tester\"\n"
        "description: >-\n"
        "  One line\n"
        "  and another.\n"
        "\n"
        "  A paragraph.\n"
        "title: |\n"
        "  Two\n"
        "    lines\n"
        "handoff_description: first\n"
        "  second\n"
        "triggers: {keywords: [a, 'b',\n"
        '   "\\u4e2d"], priority: 0x1F}\n'
        "tools:\n"
        "- one\n"
        "- two # really\n"
    )
    assert definition.name == "tester"
    assert definition.description == "One line and another.\nA paragraph."
    assert definition.title == "Two\n  lines"
    assert definition.handoff_description == "first second"
    assert definition.triggers.keywords == ("a", "b", "中")
    assert definition.triggers.priority == 31
    assert definition.tools == ("one", "two")


def test_words_such_as_no_are_texts_as_in_yaml_1_2(good: Callable[..., Any]) -> None:
    front = "name: x\ntriggers:\n  keywords: [no, on, yes, off, y, 12:30, 1_000, 2024-01-01]"
    keywords = good(front).triggers.keywords
    assert keywords == ("no", "on", "yes", "off", "y", "12:30", "1_000", "2024-01-01")


@pytest.mark.parametrize(
    ("written", "priority"), [("7", 7), ("+7", 7), ("007", 7), ("0o17", 15), ("5e1", 50), ("6.", 6)]
)
def test_integers_may_be_written_in_every_notation(
    written: str, priority: int, good: Callable[..., Any]
) -> None:
    found = good(f"name: x\ntriggers: {{priority: {written}}}").triggers.priority
    assert found == priority
    assert isinstance(found, int)
