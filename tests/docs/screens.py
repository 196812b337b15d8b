"""Playing a screen that a page shows: what was typed in it is typed again, in a real terminal.

The first line of such a block is a command of the shell, after ``$``. Every later line that begins
with a prompt, such as ``orders ›`` or ``[y]es, [n]o …:``, and has something behind it was typed.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.docs.matching import difference, matches
from tests.support.terminal import Terminal, open_terminal

WIDTH, HEIGHT = 100, 40

_TYPED = re.compile(r"(?P<prompt>[\w-]+ ›|\[y\]es, .*\):)(?: (?P<text>.+))?")
_STATUS = re.compile(r" \S+  ·  .*")
"""The line at the bottom of a chat."""
_PATIENCE_S = 240.0
"""Only ever spent by a page that is wrong."""


def play(
    shown: str, *, folder: Path, env: Mapping[str, str], patience_s: float = _PATIENCE_S
) -> str | None:
    """What is different on the real screen, or `None` if it is as `shown`."""
    command, *lines = shown.rstrip("\n").split("\n")
    # tmux gives programs the PATH, and everything else, of whoever starts it; a size that is not
    # the terminal's would be believed.
    told = ["env", "-u", "COLUMNS", "-u", "LINES", f"PATH={env['PATH']}"]
    words = [*told, "sh", "-c", command.removeprefix("$ ")]
    with open_terminal(words, folder=folder, env=env, width=WIDTH, height=HEIGHT) as terminal:
        for expected, typed in steps(lines):
            seen = _await(terminal, expected, patience_s)
            if seen is not None:
                return difference(expected, seen)
            if typed is not None:
                terminal.say(typed)
    return None


def steps(lines: list[str]) -> Iterator[tuple[str, str | None]]:
    """What must be on the screen, and then what is typed; `None` at the end."""
    above: list[str] = []
    for line in lines:
        found = _TYPED.fullmatch(line)
        if found is not None and found["text"]:
            yield "\n".join([*above, found["prompt"]]), found["text"]
        above.append(line)
    yield "\n".join(above), None


def visible(screen: str, *, status: bool) -> str:
    """The screen without the empty space above the line at the bottom, and without that line
    unless it is wanted."""
    lines = screen.split("\n")
    if not _STATUS.fullmatch(lines[-1]):
        return screen
    above = "\n".join(lines[:-1]).rstrip()
    return f"{above}\n{lines[-1]}" if status else above


def _await(terminal: Terminal, expected: str, patience_s: float) -> str | None:
    """`None` as soon as the screen is as expected; else, when it is not in time, the screen."""
    status = _STATUS.fullmatch(expected.rsplit("\n", 1)[-1]) is not None
    deadline = time.monotonic() + patience_s
    while True:
        seen = visible(terminal.history(), status=status)
        if matches(expected, seen):
            return None
        if time.monotonic() > deadline:
            return seen
