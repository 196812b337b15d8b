"""What was typed: a message, or a command that begins with a slash."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """Something to say to the team."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Called:
    """A command: everything behind the slash."""

    line: str


def read_input(text: str) -> Said | Called | None:
    """Which of the two `text` is; `None` if there is nothing in it.

    A message that is to begin with a slash is written with two.
    """
    bare = text.strip()
    if not bare:
        return None
    if bare.startswith("//"):
        return Said(text=bare[1:])
    if bare.startswith("/"):
        return Called(line=bare[1:].strip())
    return Said(text=text.strip("\n"))
