"""The page about agent files has every kind of problem."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import ekiden.agents
from ekiden.core.checks import kinds
from ekiden.project.agent_files import assembly, edges
from tests.docs.pages import page

PAGE = page("agent-files.md").text
SOURCES = [
    *sorted(Path(str(ekiden.agents.__file__)).parent.rglob("*.py")),
    Path(str(assembly.__file__)),
    Path(str(edges.__file__)),
    Path(str(kinds.__file__)),
]
_CODE = re.compile(r"(?:agent\.)?(?P<name>[a-z][a-z0-9]*(?:_[a-z0-9]+)+)")
_REPORTING = {
    "error",
    "warning",
    "_problem",
    "_handoff_problem",
    "_agent_problem",
    "YamlFault",
    "RefusedValue",
    "wrong",
}


def codes() -> set[str]:
    """The codes of problems, as the code that reports them spells them."""
    found: set[str] = set()
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            found.update(_CODE.sub(r"\g<name>", code) for code in _codes_in(node))
    return found


def _codes_in(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.keyword) and node.arg == "code":
        yield from _texts([node.value])
    elif isinstance(node, ast.Return) and isinstance(node.value, ast.Tuple):
        yield from _texts(node.value.elts[:1])
    elif isinstance(node, ast.Call):
        name = getattr(node.func, "attr", getattr(node.func, "id", ""))
        if name in _REPORTING:
            yield from _texts(node.args)


def _texts(nodes: list[ast.expr]) -> Iterator[str]:
    values = (node.value for node in nodes if isinstance(node, ast.Constant))
    yield from (value for value in values if isinstance(value, str) and _CODE.fullmatch(value))


def test_every_problem_code_is_on_the_page() -> None:
    assert {"unknown_key", "handoff_to_itself", "yaml_alias", "unknown_tool", "too_long"} <= codes()
    assert {"bad_condition", "capability_missing", "no_common_tools", "bad_target"} <= codes()
    assert not [code for code in sorted(codes()) if f"`agent.{code}`" not in PAGE]
