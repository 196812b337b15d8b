"""What a session is called before somebody gives it a name."""

from __future__ import annotations

_LONGEST = 60


def title_of(text: str) -> str:
    """The beginning of the first message, on one line."""
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 1]}…"
