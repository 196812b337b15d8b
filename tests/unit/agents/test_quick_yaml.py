"""The fast reader gives what the complete parser gives, or leaves it to that."""

from __future__ import annotations

import random
from textwrap import dedent

import pytest
from hypothesis import example, given, settings, strategies as st

from ekiden.agents.yaml_nodes import Node, YamlFault, quick_yaml
from ekiden.agents.yaml_parser import parse_yaml
from tests.support.examples import examples

TYPICAL = dedent(
    """\
    # who
    name: debugger
    title: "The \\"Debugger\\""
    description: >-
      Finds out why
      programs fail.

      Then stops.
    model: openai:gpt-5
    tools:
      allow: [read_file, 'shell', "mcp:github/issues"]
      confirmation:
        require_confirmation: [shell]   # ask
        timeout: 60
    triggers:
      keywords:
      - error
      - it's broken
      - 报错
      patterns:
        - 'Trace''back \\(most'
        - "a\\tb"
      priority: 80
      examples: []
    capabilities:
      - name: debugging
        proficiency: 0.9
        tags: [python, c++]
      - name: reading
    notes: |
      One
        two

      three
    handoffs:
    empty:
    """
)
PIECES = (
    *["name: x", "a:", "a: b", "  b: c", "  - x", "- x", "- a: b", "    c: d", "", "   ", "# c"],
    *["a: 'x'", 'a: "x"', "a: [x, y]", "a: []", "a: |", "  text", "a: >-", "    more", "a: b: c"],
    *["a: b # c", "a: #c", "  # c", "- ", "-", "- - x", "? a", "a: *b", "a: [x", "a: 'x", "a: {}"],
    *["a: x:", "a: -1", "a: ~", "- |", "- 'a': b", "'a': b", "a : b", "a:b", "...", "a: |+", "\t"],
    *["a: [a:b, c d]", "a: [a: b]", "a: [a #b]", "a: http://b", "a: x#y", "a: \u3000", "a: \u2028"],
)


def complete(text: str) -> Node | YamlFault | None:
    try:
        return parse_yaml(text)
    except YamlFault as fault:
        return fault


def assert_same_if_read(text: str) -> bool:
    quick = quick_yaml(text)
    if quick is None:
        return False
    assert quick == complete(text), text
    return True


def test_the_fast_parser_reads_a_typical_file() -> None:
    assert assert_same_if_read(TYPICAL)


def test_the_fast_parser_counts_lines_from_the_first_line() -> None:
    quick = quick_yaml("a: b\n", first_line=7)
    assert quick == parse_yaml("a: b\n", first_line=7)
    assert quick is not None
    assert quick.line == 7


@settings(deadline=None, max_examples=examples(300))
@given(st.lists(st.sampled_from(PIECES), max_size=8).map(lambda lines: "\n".join(lines) + "\n"))
@example("a: |\n  x\n   \n")
@example("a: >\n\n  x\n")
@example("a:\n- b\nc: d\n")
def test_the_fast_parser_equals_the_complete_one_for_any_lines(text: str) -> None:
    assert_same_if_read(text)


@settings(deadline=None, max_examples=examples(200))
@given(
    value=st.text(st.characters(exclude_categories=("Cs",)), max_size=12),
    form=st.sampled_from(["a: {}\n", "a: '{}'\n", 'a: "{}"\n', "a: [{}]\n", "a:\n  - {}\n"]),
)
def test_the_fast_parser_equals_the_complete_one_for_any_value(value: str, form: str) -> None:
    assert_same_if_read(form.format(value).replace("\r", "\n"))


@pytest.mark.parametrize("seed", range(4))
def test_the_fast_parser_equals_the_complete_one_for_mutated_files(seed: int) -> None:
    random_ = random.Random(seed)
    fast = 0
    for _ in range(60):
        text = list(TYPICAL)
        for _ in range(random_.randint(1, 3)):
            at = random_.randrange(len(text))
            text[at] = random_.choice(["", " ", "\n", ":", "-", "#", "'", "[", "|", text[at] * 2])
        fast += assert_same_if_read("".join(text).rstrip("\n") + "\n")
    assert fast > 10


@settings(deadline=None, max_examples=examples(50))
@given(depth=st.integers(1, 30))
def test_the_fast_parser_has_the_same_depth_limit(depth: int) -> None:
    text = "".join(f"{' ' * level}k{level}:\n" for level in range(depth)) + " " * depth + "v: 1\n"
    assert assert_same_if_read(text) == (depth < 20)
