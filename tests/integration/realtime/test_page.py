"""The example of the page on live sessions, which needs a socket."""

from __future__ import annotations

import ast
import inspect

import pytest

from tests.docs.matching import matches
from tests.docs.pages import page


async def test_the_example_with_a_server_runs(capsys: pytest.CaptureFixture[str]) -> None:
    [block] = [block for block in page("realtime.md").blocks if block.not_run]
    code = compile(block.text, "realtime.md", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    running = eval(code, {})
    assert inspect.iscoroutine(running)
    await running
    assert block.output is not None
    assert matches(block.output, capsys.readouterr().out)
