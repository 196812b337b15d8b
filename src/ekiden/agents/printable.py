"""Texts of others as they can be shown to a person."""

from __future__ import annotations


def printable(text: str) -> str:
    """The text with control characters and the like as escapes: safe for a terminal and a log."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)
