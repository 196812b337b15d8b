"""The JSON Schema of front matter, for editors."""

from __future__ import annotations

from typing import Any

from ekiden.agents.keys.table import AGENT


def agent_file_schema() -> dict[str, Any]:
    """JSON Schema 2020-12 for the front matter of an agent file; a new copy each time.

    It is made from the table that the reader uses. The reader also checks what a schema cannot:
    whether patterns compile, and whether the agents of a team fit together.
    """
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "urn:ekiden:agent-file",
        "title": "Ekiden agent",
        "description": "The front matter of an agent file; the text below it is the instructions.",
        **AGENT.schema(),
    }
