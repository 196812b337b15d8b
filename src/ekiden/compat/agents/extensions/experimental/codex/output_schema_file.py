"""The file that tells the `codex` command the schema of its answer."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ekiden.compat.agents.exceptions import UserError


@dataclass
class OutputSchemaFile:
    """A temporary file; call `cleanup` to remove it."""

    schema_path: str | None
    cleanup: Callable[[], None]


def create_output_schema_file(schema: dict[str, Any] | None) -> OutputSchemaFile:
    """Write the schema to a file of its own; without a schema there is none."""
    if schema is None:
        return OutputSchemaFile(schema_path=None, cleanup=lambda: None)
    if not isinstance(schema, dict):
        raise UserError(f"output_schema must be a JSON object, not {type(schema).__name__}")
    text = json.dumps(schema)
    folder = Path(tempfile.mkdtemp(prefix="codex-schema-"))
    file = folder / "schema.json"
    file.write_text(text, encoding="utf-8")
    return OutputSchemaFile(
        schema_path=str(file), cleanup=lambda: shutil.rmtree(folder, ignore_errors=True)
    )
