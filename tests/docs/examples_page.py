"""`docs/examples.md`, made of `examples`."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

EXAMPLES: Final = Path(__file__).parents[2] / "examples"
TITLES: Final[Mapping[str, str]] = {
    "support_desk": "Support desk with refund approval",
    "research_team": "Research team with a plan",
    "coding_agents": "Coding agents",
    "booking": "Travel desk with rollback",
    "contract_negotiation": "Contract negotiation",
    "phone_agent": "Phone agent",
    "langgraph_member": "LangGraph member",
    "console_server": "Server with console and sample data",
    "postgres_workers": "PostgreSQL with workers",
    "temporal_desk": "Temporal",
}
_HEAD = """\
# Examples

Ten small programs to copy. Each runs unchanged, without a key: its model is scripted, or its agents
are plain code. A comment marks the line to change for a real model. The tests run all of them.

| program | shows |
| --- | --- |
"""
_MORE = """
Also in the folder: `travel_desk.py`, a larger supervisor in three languages; `offer.py`, agents
that ask each other and a person; `served_desk.py`, a server and its Python client.
"""


def examples_page() -> str:
    """All of it."""
    rows = [f"| [{name}.py](#{_anchor(name)}) | {_about(name)[0]} |\n" for name in TITLES]
    return "".join([_HEAD, *rows, _MORE, *_sections()])


def _sections() -> Iterator[str]:
    for name, title in TITLES.items():
        _, text, code = _about(name)
        yield f"\n## {title}\n\n{text}\n\n"
        yield "<!-- not run: tests/acceptance/test_example_programs.py runs it -->\n"
        yield f"```python\n# examples/{name}.py\n{code}```\n"


def _about(name: str) -> tuple[str, str, str]:
    """The first line of a program's docstring, all of it, and the program below it."""
    source = (EXAMPLES / f"{name}.py").read_text("utf-8")
    tree = ast.parse(source)
    about = ast.get_docstring(tree) or ""
    end = tree.body[0].end_lineno or 0
    code = "".join(source.splitlines(keepends=True)[end:]).lstrip("\n")
    return about.partition("\n")[0].rstrip("."), about, code


def _anchor(name: str) -> str:
    return TITLES[name].lower().replace(" ", "-")
