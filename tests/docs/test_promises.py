"""Each promise names tests that try to break it, and those tests exist."""

from __future__ import annotations

import re

from tests.docs.pages import ROOT, page

PROMISES = 10
_ROW = re.compile(r"^\| (\d+)\. [^|]+ \| ([^|]+) \|$", re.MULTILINE)
_TEST = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")
_ROWS = {int(number): cell for number, cell in _ROW.findall(page("reliability.md").text)}
_TESTS = sorted({found for cell in _ROWS.values() for found in _TEST.findall(cell)})


def test_every_promise_has_tests() -> None:
    assert sorted(_ROWS) == list(range(1, PROMISES + 1))
    assert all(_TEST.search(cell) for cell in _ROWS.values())


def test_the_tests_that_are_named_exist() -> None:
    for file, name in _TESTS:
        assert re.search(rf"^(async )?def {name}\(", (ROOT / file).read_text(), re.M), name
