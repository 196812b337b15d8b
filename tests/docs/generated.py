"""Writes all generated pages and parts of pages anew: ``python -m tests.docs.generated``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tests.docs.api_page import api_page
from tests.docs.examples_page import examples_page
from tests.docs.pages import DOCS
from tests.docs.reference import rewritten
from tests.support.openapi import document_text


def generated() -> Iterator[tuple[Path, str]]:
    """Each file with the text that it should have."""
    yield DOCS / "openapi.json", document_text()
    yield DOCS / "api.md", api_page()
    yield DOCS / "examples.md", examples_page()
    for path in sorted(DOCS.glob("*.md")):
        text = path.read_text("utf-8")
        if "<!-- generated: " in text:
            yield path, rewritten(text)


if __name__ == "__main__":
    for path, text in generated():
        path.write_text(text, "utf-8")
