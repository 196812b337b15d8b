"""Regular expressions of the package mean the same on every supported version of Python."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "ekiden"
_POSSESSIVE = re.compile(r"[*+?}]\+|\(\?>")
"""Files without it need not be parsed."""
_ONE_CHARACTER = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]", re.DOTALL)
_REFUSED = re.compile(r"\)\s*(?:[*+?]|\{[0-9, ]*\})\+|\(\?>")


def _is_refused(text: str) -> bool:
    """Whether it is a pattern with an atomic group, or a group that is repeated possessively.

    If such a group fails after it has backtracked, Python before 3.11.5 continues at a wrong
    position. ``[ab]*+`` and other possessive repeats of one character are right everywhere.
    """
    if _REFUSED.search(_ONE_CHARACTER.sub("x", text)) is None:
        return False
    for flags in (re.NOFLAG, re.VERBOSE):
        with suppress(re.error):
            re.compile(text, flags)
            return True
    return False


def _texts(source: str) -> Iterator[str]:
    """The strings of a module; in an f-string, "x" replaces each value."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.JoinedStr):
            yield "".join(
                str(part.value) if isinstance(part, ast.Constant) else "x" for part in node.values
            )
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def test_no_pattern_has_an_atomic_group_or_repeats_a_group_possessively() -> None:
    refused = [
        f"{path.relative_to(SOURCE)}: {text}"
        for path in sorted(SOURCE.rglob("*.py"))
        if _POSSESSIVE.search(source := path.read_text("utf-8"))
        for text in _texts(source)
        if _is_refused(text)
    ]
    assert refused == []


@pytest.mark.parametrize(
    "pattern", ["(?:ab?c)*+", "(a|b)++", "(?: a\n ) {1,2}+", "(a)?+", "x(?>a*)", r"(?:[)\]]\))*+"]
)
def test_the_rule_finds(pattern: str) -> None:
    assert _is_refused(pattern)


@pytest.mark.parametrize(
    "pattern", ["[ab()]*+", r"\)++", "(?:a++|b)*", "[)*+]", "()*+,;=[", "(a)+"]
)
def test_the_rule_allows(pattern: str) -> None:
    assert not _is_refused(pattern)
