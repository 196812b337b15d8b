"""Unknown keys and invalid values: all are reported, with place and advice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ekiden.agents import AgentFile
from ekiden.agents.definition import MAX_PROBLEMS

Faults = Callable[..., list[Any]]
Read = Callable[..., AgentFile]


def test_all_faults_are_reported_at_once_and_in_order(read: Read) -> None:
    file = read(
        "nmae: x\ntitle: 1\ntriggers:\n  prio: 1\n  priority: 101\n  keywords: x\n"
        "capabilities:\n  - proficiency: 2\nscope: projekt"
    )
    assert [
        (problem.code.removeprefix("agent."), problem.line, problem.column)
        for problem in file.problems
    ] == [
        ("unknown_key", 2, 1),
        ("wrong_type", 3, 8),
        ("unknown_key", 5, 3),
        ("out_of_range", 6, 13),
        ("wrong_type", 7, 13),
        ("missing_key", 9, 5),
        ("out_of_range", 9, 18),
        ("unknown_value", 10, 8),
    ]
    assert file.definition is None


@pytest.mark.parametrize(
    ("front", "words"),
    [
        ("descripton: x", "did you mean 'description'?"),
        ("handofDescription: x", "did you mean 'handoff_description'?"),
        ("keywords: [x]", "it belongs under `triggers:`"),
        ("proficiency: 1", "it belongs under `capabilities:`"),
        ("allow: [x]", "it belongs under `tools:`"),
        ("zzz: 1", "known: name, title, description"),
        ("triggers: {keyword: []}", "'triggers.keyword'; did you mean 'keywords'?"),
        ("handoffs: [{to: y, allowreturns: true}]", "did you mean 'allow_return'?"),
        ("<<: {title: x}", "there is no key '<<'"),
    ],
)
def test_an_unknown_key_is_reported_with_a_suggestion(front: str, words: str, read: Read) -> None:
    (problem,) = read(f"name: x\n{front}").problems
    assert problem.code == "agent.unknown_key"
    assert words in problem.message


@pytest.mark.parametrize(
    ("front", "code", "column"),
    [
        ("title: 42", "wrong_type", 8),
        ("title: true", "wrong_type", 8),
        ("title: ~", "wrong_type", 8),
        ("title:", "wrong_type", 1),
        ("title: [a]", "wrong_type", 8),
        ("title: '  '", "empty_value", 8),
        ('title: "\\ud800"', "bad_character", 8),
        ('title: "\\e]0;x\\a"', "bad_character", 8),
        ("model: gpt", "bad_model", 8),
        ("model: ':x'", "bad_model", 8),
        ("scope: global", "unknown_value", 8),
        ("scope: [user]", "wrong_type", 8),
        ("tools: 5", "wrong_type", 8),
        ("tools: [5]", "wrong_type", 9),
        ("tools: [[a]]", "wrong_type", 9),
        ("tools: ['']", "empty_value", 9),
        (f"tools: [{'x' * 201}]", "too_long", 9),
        ("triggers: error", "wrong_type", 11),
        ("triggers: []", "wrong_type", 11),
        ("triggers: {keywords: ['']}", "empty_value", 23),
        ("triggers: {keywords: [404]}", "wrong_type", 23),
        ("triggers: {keywords: error}", "wrong_type", 22),
        ("triggers: {priority: high}", "wrong_type", 22),
        ("triggers: {priority: 50.5}", "wrong_type", 22),
        ("triggers: {priority: '50'}", "wrong_type", 22),
        ("triggers: {priority: true}", "wrong_type", 22),
        ("triggers: {priority: -1}", "out_of_range", 22),
        ("triggers: {priority: .inf}", "wrong_type", 22),
        ("triggers: {priority: .nan}", "wrong_type", 22),
        ("triggers: {priority: " + "9" * 300 + "}", "out_of_range", 22),
        ("triggers: {priority: -" + "9" * 350 + "}", "out_of_range", 22),
        ("capabilities: {name: x}", "wrong_type", 15),
        ("capabilities: [{}]", "missing_key", 16),
        ("capabilities: [{name: x, proficiency: 1.01}]", "out_of_range", 39),
        ("capabilities: [5]", "wrong_type", 16),
        ("handoffs: fixer", "wrong_type", 11),
        ("handoffs: [{when: manual}]", "missing_key", 12),
        ("handoffs: [{to: y, when: never}]", "unknown_value", 26),
        ("handoffs: [{to: y, allow_return: yes}]", "wrong_type", 34),
        ("handoffs: [{to: y, trigger: 5}]", "wrong_type", 29),
        ("handoffs: [{to: y, trigger: {type: evnt}}]", "unknown_value", 36),
        ("handoffs: [{to: y, filters: [keep last]}]", "bad_filter", 30),
        ("guardrails: {output_schema: '{}'}", "wrong_type", 29),
        ("guardrails: {output_schema: {a: .inf}}", "wrong_type", 33),
        ("guardrails: {output_schema: {a: 1, a: 2}}", "duplicate_key", 36),
        ('guardrails: {output_schema: {a: "\\ud800"}}', "bad_character", 33),
        ('guardrails: {output_schema: {"\\ud800": 1}}', "bad_character", 30),
        ("guardrails: {custom_validator: polite}", "bad_function", 32),
        ("guardrails: {on_failure: explode}", "unknown_value", 26),
        ("memory: {type: big}", "unknown_value", 16),
        ("memory: true", "wrong_type", 9),
        ("tool_confirmation: {timeout: 0}", "out_of_range", 30),
        ("tool_confirmation: {timeout: -1}", "out_of_range", 30),
        ("tool_confirmation: {timeout: 1e12}", "out_of_range", 30),
        ("tool_confirmation: {timeout: 30s}", "wrong_type", 30),
        ("tool_confirmation: {prompt_template: 'Run {tool}?'}", "bad_template", 38),
        ("tool_confirmation: {prompt_template: 'Run {{tool_name}}?'}", "bad_template", 38),
        ("tool_confirmation: {prompt_template: 'Run {tool_name!r}?'}", "bad_template", 38),
        ("title: a\ntitle: b", "duplicate_key", 1),
        ("handoff_description: a\nhandoffDescription: b", "duplicate_key", 1),
    ],
)
def test_each_invalid_value_has_a_code_and_a_place(
    front: str, code: str, column: int, faults: Faults
) -> None:
    ((found, _, at),) = faults(front)
    assert (found, at) == (code, column)


@pytest.mark.parametrize(
    ("front", "words"),
    [
        ("title: 42", '"42"'),
        ("title: null", "leave the key out"),
        ("triggers: {priority: high}", "a whole number from 0 to 100"),
        ("triggers: {keywords: error}", "a list of texts, such as [error, crash]"),
        ("memory: {enabled: yes}", "must be true or false, not 'yes'"),
        ("scope: projct", "did you mean 'project'?"),
        ("title: a\ntitle: b", "already in line 3"),
        (
            "tool_confirmation: {timeout: -3}",
            "must be a number above 0, at most 31,536,000, not -3",
        ),
    ],
)
def test_a_message_names_the_found_and_the_expected_value(
    front: str, words: str, read: Read
) -> None:
    (problem,) = read(f"name: x\n{front}").problems
    assert words in problem.message


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("foo(?=bar)", "look-around"),
        ("(?<!a)b", "look-around"),
        (r"(a)\1", "back-references"),
        ("(?P<a>x)(?P=a)", "named group"),
        ("(?>a)", "atomic"),
        ("a++", "possessive"),
        ("(?x) a", "x flag"),
        (r"a\Z", r"\z"),
        (r"\u4e00", r"\x{4e00}"),
        ("((a{100}){100}){100}", "memory"),
        (r"\pL{200}", "memory"),
        ("a{1001}", "memory"),
        ("(", "missing )"),
        ("*", "does not compile"),
        ("a" * 1001, "must not be longer than 1000 characters; it has 1001"),
    ],
)
def test_an_invalid_pattern_is_reported_with_the_reason(
    pattern: str, words: str, read: Read
) -> None:
    file = read(f"name: x\ntriggers:\n  patterns:\n    - '{pattern}'")
    (problem,) = file.problems
    assert (problem.line, problem.column) == (5, 7)
    assert problem.code in ("agent.bad_pattern", "agent.too_long")
    assert words in problem.message


def test_patterns_are_limited_in_number(faults: Faults) -> None:
    patterns = ", ".join(f"p{each}" for each in range(101))
    assert faults(f"triggers: {{patterns: [{patterns}]}}") == [("too_many", 3, 22)]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("Code Reviewer", "such as code-reviewer"),
        ("-x", "such as x"),
        ("a.b", "such as a-b"),
        ("a/../b", "such as a-b"),
        ("'!!!'", "letters, digits"),
        ("'!user'", "begin with a letter or digit"),
        ("auto", "taken by Ekiden"),
        ("User", "taken by Ekiden"),
        ("😀", "letters, digits"),
        ("'\u0301a'", "letters, digits"),
        ("x" * 101, "must not be longer than 100 characters; it has 101"),
        ("12", 'in quotes: "12"'),
        ("[x]", "not a list"),
    ],
)
def test_an_invalid_name_is_refused_with_the_rule(name: str, words: str, read: Read) -> None:
    file = read(f"name: {name}")
    assert file.definition is None
    (problem,) = file.problems
    assert (problem.line, problem.column) == (2, 7)
    assert words in problem.message


def test_a_confirmation_written_twice_is_refused(read: Read) -> None:
    file = read(
        "name: x\ntools: {allow: [a], require_confirmation: [a],"
        " confirmation: {require_confirmation: []}}"
    )
    assert file.definition is None
    (problem,) = file.problems
    assert (problem.code, problem.line) == ("agent.duplicate_key", 3)


def test_the_list_of_faults_of_one_file_is_limited(read: Read) -> None:
    front = "\n".join(f"key{each}: 1" for each in range(500))
    file = read(f"name: x\n{front}")
    assert len(file.problems) == MAX_PROBLEMS
    assert all(len(str(problem)) < 1000 for problem in file.problems)


def test_long_and_unprintable_values_are_shown_short_and_escaped(read: Read) -> None:
    for value in ("x" * 5000, '"\\e[31m' + "y" * 5000 + '"', "\u202ex"):
        for problem in read(f"name: x\nscope: {value}\n{value[:3000]}x: 1").problems:
            assert len(problem.message) < 400
            assert problem.message.isprintable()


@pytest.mark.parametrize(
    ("front", "words"),
    [
        ("can_ask: [person:support]", "people are asked with can_ask_people: [support]"),
        ("can_tell: person:support", "people are asked with can_ask_people: [support]"),
        ("can_ask_people: [person:support]", "write the role alone, as support"),
        ('can_ask_people: ["a\\nb"]', "a role is one line"),
    ],
)
def test_people_in_can_ask_and_agents_in_can_ask_people_are_refused(
    front: str, words: str, read: Read
) -> None:
    (problem,) = read(f"name: x\n{front}").problems
    assert (problem.code, problem.line) == ("agent.bad_target", 3)
    assert words in problem.message
