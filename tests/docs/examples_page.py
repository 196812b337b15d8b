"""`docs/examples.md`, made of the docstrings of the programs in `examples`."""

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

The folder [examples](../examples) has ten small programs to copy. Each program runs unchanged and
without an API key, because its model is scripted or its agents are plain code. A comment marks the
line to change for a real model. The tests run all programs.
"""
_MORE = """
## A complete application

The folder [shop](../examples/shop/README.md) has the service desk of a shop: seven agents, a
database, a warehouse that answers on the bus, and a simulated week that tests them.

## Further programs

`travel_desk.py` has a larger supervisor, with requests in three languages. In `offer.py`,
agents ask each other and a person. `served_desk.py` is a server and its Python client.
"""


def examples_page() -> str:
    """All of it."""
    return "".join([_HEAD, *_sections(), _MORE])


def _sections() -> Iterator[str]:
    """Each program's title, docstring and file."""
    for name, title in TITLES.items():
        about = ast.get_docstring(ast.parse((EXAMPLES / f"{name}.py").read_text("utf-8"))) or ""
        yield f"\n## {title}\n\nProgram: [{name}.py](../examples/{name}.py)\n\n{about}\n"
