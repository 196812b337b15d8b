"""Runs the examples of a page, all in one namespace, and compares what they print."""

from __future__ import annotations

import ast
import asyncio
import io
import re
from contextlib import redirect_stdout
from inspect import CO_COROUTINE
from pathlib import Path
from types import FunctionType
from typing import Any

DOCS = Path(__file__).parents[2] / "docs" / "frameworks"
_BLOCK = re.compile(r"^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```$)?", re.MULTILINE | re.DOTALL)


def run_page(name: str, *, framed: bool = False, **given: Any) -> None:
    """`AssertionError` where the page says something else; `given` are names of its examples."""
    blocks = _BLOCK.findall((DOCS / name).read_text(encoding="utf-8"))
    assert blocks
    asyncio.run(_run(name, blocks, framed, given))


async def _run(
    name: str, blocks: list[tuple[str, str]], framed: bool, given: dict[str, Any]
) -> None:
    names: dict[str, Any] = {"__name__": "page", **given}
    for source, expected in blocks:
        code = compile(source, name, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        with redirect_stdout(io.StringIO()) as printed:
            if code.co_flags & CO_COROUTINE:
                await FunctionType(code, names)()
            else:
                exec(code, names)
        said = printed.getvalue()
        if framed:  # Panels that the framework prints begin with these.
            said = "".join(each for each in said.splitlines(True) if each[0] not in "╭│╰\n")
        assert said == expected
