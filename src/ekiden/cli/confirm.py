"""Questions on the terminal before something is removed for good, and while a project is made."""

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
        help="Do it without asking; needed where nobody can be asked.",
    ),
]


def confirm(what: str, *, yes: bool) -> None:
    """Ask whether to do `what`, such as ``delete ses_1``; `NotConfirmed` unless somebody agrees."""
    if yes:
        return
    if not is_attended():
        raise NotConfirmed(
            f"this would {what}, for good; nothing was changed: say --yes to do it without a "
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
    """Let Ctrl-C end the waiting for a line; a running event loop would hear it afterwards."""
    try:
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
    except ValueError:  # not the main thread
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
