"""Questions at the terminal: before a deletion, in a new project, and about trust."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, TypeAlias

from cyclopts import Parameter

from ekiden.cli.errors import NotConfirmed
from ekiden.cli.terminal.approval_prompt import forget_typed_ahead, is_attended, is_yes
from ekiden.cli.terminal.output import safe
from ekiden.core.current_agent import acting_agent
from ekiden.core.errors import FolderNotTrusted

if TYPE_CHECKING:
    from ekiden.project.settings import LoadedSettings
    from ekiden.project.trust import Risk, Workspace


YesOption: TypeAlias = Annotated[
    bool,
    Parameter(
        name="--yes",
        negative="",
        show_default=False,
        help="Do not ask for confirmation. Required if there is no terminal.",
    ),
]


def confirm(what: str, *, yes: bool) -> None:
    """Ask whether to do `what`, such as ``delete ses_1``; `NotConfirmed` without approval."""
    if yes:
        return
    if not is_attended():
        raise NotConfirmed(
            f"this would {what} permanently; nothing was changed: give --yes to skip the "
            "question, or run the command on a terminal"
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


QUESTION: Final = "Trust this folder? [y]es, [n]o: "
_VARIABLE: Final = "EKIDEN_TRUST"
_ENVIRONMENT_YES: Final = frozenset({"1", "true", "yes", "on"})
_SHOWN: Final = 200


class NotTrustedYet(FolderNotTrusted):
    """The refusal of a folder that a person may still trust."""

    def __init__(self, workspace: Workspace) -> None:
        way_out = (
            "if you trust these files, run `ekiden trust` in this folder, or give --trust to trust "
            "them for one command"
        )
        if (agent := acting_agent()) is not None:
            way_out = f"the agent {agent!r:.80} cannot trust a folder: only people can"
        from ekiden.agents.definition import printable

        folder = printable(str(workspace.root))
        super().__init__(folder, listed(workspace.lines()), way_out=way_out)
        self.workspace = workspace


def check_trust(found: Workspace, *, trust: bool = False, asks: bool = True) -> bool:
    """Raise unless the folder is trusted; the person at the terminal is asked once per content.

    Returns whether the person was asked: the files may have changed meanwhile.

    With `trust`, or EKIDEN_TRUST, there is no question and nothing is stored; a command that an
    agent runs cannot trust anything. `FolderNotTrusted` if the person declines, and without a
    terminal.
    """
    if found.is_trusted:
        return False
    is_person = acting_agent() is None
    if is_person and (trust or os.environ.get(_VARIABLE, "").strip().lower() in _ENVIRONMENT_YES):
        return False
    if not (asks and is_person and is_attended()):
        raise NotTrustedYet(found)
    if not is_yes(ask_line(f"{introduction(found)}\n{QUESTION}")):
        raise NotTrustedYet(found)
    found.trust()
    return True


def introduction(found: Workspace) -> str:
    """The text before the question."""
    from ekiden.agents.definition import printable

    return "\n".join(
        [
            f"Do you trust {printable(str(found.root))}? Its files do the following:",
            *(f"  {line}" for line in listed(found.lines())),
        ]
    )


def listed(risks: Sequence[Risk]) -> list[str]:
    """The lines as text."""
    lines = [str(risk) for risk in risks[:_SHOWN]]
    if len(risks) > _SHOWN:
        lines.append(f"… and {len(risks) - _SHOWN:,} more: `ekiden trust --show --json` has all")
    return lines


def check_addresses(loaded: LoadedSettings, root: Path, *names: str) -> None:
    """`FolderNotTrusted` if the project's settings `names` have an address, and the folder is not
    trusted.

    For commands that load no project, before they connect to an address in these settings.
    """
    from ekiden.project.trust import inspect_workspace

    used = [
        name
        for name in names
        if loaded.origin(name).kind == "project" and "://" in str(loaded.value(name))
    ]
    if used:
        check_some(inspect_workspace(root, loaded), *used)


def check_some(found: Workspace, *keys: str, trust: bool = False) -> None:
    """As `check_trust`, for a command that uses only these settings and their children."""
    if any(each.key.startswith(keys) for each in found.risks):
        check_trust(found, trust=trust)
