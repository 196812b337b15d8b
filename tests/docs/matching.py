"""Comparing what was printed with what a page says."""

from __future__ import annotations

import difflib
import re


def matches(expected: str, printed: str) -> bool:
    """Whether they are equal, line by line; spaces at line ends and around the whole do not count.

    In `expected`, ``...`` stands for any text within a line, and a line of nothing else for any
    number of lines. ``... ms`` also stands for seconds: a busy machine takes longer.
    """
    pattern = "".join(map(_line_pattern, _lines(expected)))
    return re.fullmatch(pattern, "".join(f"{line}\n" for line in _lines(printed))) is not None


def difference(expected: str, printed: str) -> str:
    """Both, for people: what is only on the page, and what was only printed."""
    compared = difflib.unified_diff(
        _lines(expected), _lines(printed), "the page says", "it printed", lineterm="", n=20
    )
    return "\n".join(compared)


def _lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.strip("\n").splitlines()]


def _line_pattern(line: str) -> str:
    if line.strip() == "...":
        return r"(?:.*\n)*?"
    parts = (re.sub(r"^\\ ms\b", " m?s", re.escape(part)) for part in line.split("..."))
    return ".*?".join(parts) + r"\n"
