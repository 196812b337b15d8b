"""The OpenAPI document of the server, without a project."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ekiden.project import load_project
from ekiden.project.service import Service
from ekiden.server.application import create_app


def openapi_document() -> dict[str, Any]:
    """The document at `/openapi.json`. It does not depend on the project or on installed extras."""
    with TemporaryDirectory() as folder:
        project = load_project(Path(folder), home=Path(folder) / "home")
        return create_app(Service(project, store="memory:")).openapi()


def document_text() -> str:
    """The document as the file has it."""
    return json.dumps(openapi_document(), indent=1, ensure_ascii=False) + "\n"
