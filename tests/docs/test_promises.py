"""Each promise names tests that try to break it, and those tests exist."""

from __future__ import annotations

import ast
import re

import pytest

from tests.docs.pages import ROOT, page

PROMISES = 10
_ROW = re.compile(r"^\| (\d+)\. [^|]+ \| ([^|]+) \|$", re.MULTILINE)
_TEST = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")
_ROWS = {int(number): cell for number, cell in _ROW.findall(page("reliability.md").text)}
_TESTS = sorted({found for cell in _ROWS.values() for found in _TEST.findall(cell)})


def test_every_promise_has_tests() -> None:
    assert sorted(_ROWS) == list(range(1, PROMISES + 1))
    assert all(_TEST.search(cell) for cell in _ROWS.values())


@pytest.mark.parametrize(("file", "name"), _TESTS)
def test_a_test_that_is_named_exists(file: str, name: str) -> None:
    tree = ast.parse((ROOT / file).read_text())
    functions = {
        each.name
        for each in tree.body
        if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)
        and each.name.startswith("test_")
    }
    assert name in functions
