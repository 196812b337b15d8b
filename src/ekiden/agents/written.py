"""Conditions as a file has them: with the place of every character, to show where a fault is."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

Place: TypeAlias = tuple[int, int]
"""Line and column in a file, from 1."""

FIRST_LINE = 2
"""Of front matter, in the file: the line after ``---``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenCondition:
    """A condition in a file; whether it can be read is for others to say."""

    at: str
    """The key that has it, as ``handoffs[0].condition``."""
    text: str
    line: int
    column: int
    front: str = field(default="", compare=False, repr=False)
    """The front matter that it stands in."""

    def place(self, position: int) -> Place:
        """Where in the file the character at `position` of `text` stands.

        Where the file says it with escapes, so that this cannot be told, where the text begins.
        """
        rows = self.front.split("\n")[self.line - FIRST_LINE :]
        rest = "\n".join(rows)[self.column - 1 :]
        found = _found(rest, self.text, position)
        if found is None:
            return self.line, self.column
        before = rest[:found]
        if "\n" not in before:
            return self.line, self.column + found
        return self.line + before.count("\n"), found - before.rfind("\n")


def _found(rest: str, text: str, position: int) -> int | None:
    """The index in `rest`, which says `text` in one of YAML's ways; `None` if that is unclear.

    The two differ in spaces and line breaks, and in the quotes and backslashes of quoted texts.
    """
    quote = rest[:1] if rest[:1] in ("'", '"') else ""
    at = rest.find("\n") + 1 if rest[:1] in ("|", ">") else len(quote)
    passed = {"'": "'", '"': '\\"', "": ""}[quote]
    end = None
    for index, sign in enumerate(text):
        if sign.isspace():
            continue
        while at < len(rest) and rest[at] != sign:
            if not rest[at].isspace() and rest[at] not in passed:
                return None
            at += 1
        if at == len(rest):
            return None
        if index >= position:
            return at
        at += 1
        end = at
    return end
