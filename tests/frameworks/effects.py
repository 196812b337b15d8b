"""Effects of inner tools, as lines of a file; a process may be told to die in one."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from ekiden import current_turn


def effect(member: str) -> str:
    """What the inner tool of a member does: once for each key, whatever repeats it."""
    _die(f"{member}:before")
    line = f"{member} {current_turn().effect_key('book', member)}\n".encode()
    out = os.open(os.environ["EFFECTS"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(out, line)
    os.close(out)
    _die(f"{member}:after")
    return f"{member} is booked"


def done(path: Path) -> list[tuple[str, str]]:
    """Member and key of each effect that was done, in order."""
    lines = path.read_text().splitlines() if path.exists() else []
    return [(line.split()[0], line.split()[1]) for line in lines]


def _die(where: str) -> None:
    if os.environ.get("KILL") == where:
        os.kill(os.getpid(), signal.SIGKILL)
