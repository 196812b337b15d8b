"""Where in a file the front matter is, and where the instructions begin."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ekiden.agents.files import Spot
from ekiden.agents.report import Report

MAX_FRONT_MATTER = 64 * 1024
"""Characters."""

_FENCE = re.compile(r"^---[ \t]*$", re.MULTILINE)
_EXAMPLE = "begin the file with a line ---, then name: and other keys, then a second line ---"


@dataclass(frozen=True, slots=True)
class Parts:
    """A file in two."""

    front: str
    """What is between the two lines ``---``; its first line is the file's second."""
    body: str
    """The instructions, without blank lines around them."""


def split(text: str, report: Report) -> Parts | None:
    """Front matter and instructions; `None`, with the reason in the report, if there are not two.

    The front matter is between a first line ``---`` and the next line ``---``.
    """
    if not text.strip():
        report.error(None, "empty_file", f"the file is empty; {_EXAMPLE}, then the instructions")
        return None
    opening = _FENCE.match(text)
    if opening is None:
        _report_missing(text, report)
        return None
    start = opening.end() + 1
    closing = _FENCE.search(text, start)
    if closing is None:
        report.error(
            None,
            "unclosed_front_matter",
            "the front matter that begins here has no end; write a line --- after its last key",
        )
        return None
    if closing.start() - start > MAX_FRONT_MATTER:
        report.error(
            None,
            "too_large",
            f"the front matter is longer than {MAX_FRONT_MATTER // 1024} KB; what is long "
            "belongs into the instructions below it",
        )
        return None
    return Parts(text[start : closing.start()], text[closing.end() :].strip())


def _report_missing(text: str, report: Report) -> None:
    late = _FENCE.search(text)
    if late is not None and not text[: late.start()].strip():
        line = text.count("\n", 0, late.start()) + 1
        report.error(
            Spot(line, 1), "no_front_matter", "--- must be the first line; remove what is before it"
        )
        return
    report.error(None, "no_front_matter", f"the file has no front matter; {_EXAMPLE}")
