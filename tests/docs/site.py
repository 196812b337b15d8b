"""Docstrings as the site shows them: ``::`` before an example is a colon."""

from __future__ import annotations

import re
from typing import Any

import griffe


class Docstrings(griffe.Extension):
    """Turns the marks of reStructuredText in docstrings into Markdown."""

    def on_instance(self, *, obj: griffe.Object, **options: Any) -> None:
        """Called for each object with a docstring, among others."""
        if obj.docstring is not None:
            obj.docstring.value = re.sub(r"::$", ":", obj.docstring.value, flags=re.MULTILINE)
