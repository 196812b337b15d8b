"""Questions on the terminal before a deletion, and while a project is created."""

from __future__ import annotations

import contextlib
import signal
import sys
from collections.abc import Iterator
from typing import Annotated, TypeAlias

from cyclopts import Parameter

from ekiden.cli.approval_prompt import forget_typed_ahead, is_attended, is_yes
from ekiden.cli.errors import NotConfirmed
from ekiden.cli.output import safe

YesOption: TypeAlias = Annotated[
    bool,
    Parameter(
        name="--yes",
        negative="",
        show_default=False,
        help="Do not ask; required without a terminal.",
    ),
]


def confirm(what: str, *, yes: bool) -> None:
    """Ask whether to do `what`, such as ``delete ses_1``; `NotConfirmed` without approval."""
    if yes:
        return
    if not is_attended():
        raise NotConfirmed(
            f"this would {what}, for good; nothing was changed: give --yes to skip the "
            "question, or run it at a terminal"
        )
    if not is_yes(ask_line(f"{what[0].upper()}{what[1:]}, for good? [y]es, [n]o: ")):
        raise NotConfirmed("nothing was changed")


def ask_line(prompt: str) -> str | None:
    """The line that the person at the terminal types; `None` at the end of the input."""
    forget_typed_ahead()
    sys.stderr.write(safe(prompt))
    sys.stderr.flush()
    with _interruptible():
        line = sys.stdin.readline()
    if not line.endswith("\n"):
        sys.stderr.write("\n")
    return line.strip() if line else None


@contextlib.contextmanager
def _interruptible() -> Iterator[None]:
    """Let Ctrl-C end the wait for a line; a running event loop would handle it only afterwards."""
    try:
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
    except ValueError:  # not the main thread
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
