"""The example of the page on models that needs a socket."""

from __future__ import annotations

import ast
import inspect
from typing import Any

from ekiden import Agent, Runner
from ekiden.models import resolve_model
from tests.docs.pages import page


async def test_the_example_with_a_server_runs() -> None:
    (block,) = [block for block in page("models.md").blocks if block.not_run]
    namespace: dict[str, Any] = {"Agent": Agent, "Runner": Runner, "resolve_model": resolve_model}
    code = compile(block.text, "models.md", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    running = eval(code, namespace)
    assert inspect.iscoroutine(running)
    await running
    assert namespace["result"].final_output == "Good day."
