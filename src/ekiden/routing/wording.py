"""Text of others as people are shown it."""

from __future__ import annotations

from unicodedata import category


def plain_line(text: str, max_chars: int) -> str:
    """`text` as one line without control and invisible characters, cut at `max_chars`."""
    text = text[: 4 * max_chars]
    if not (text.isascii() and text.isprintable()):
        text = "".join(each if category(each)[0] != "C" else " " for each in text)
    line = " ".join(text.split())
    return line if len(line) <= max_chars else line[: max_chars - 1] + "…"
