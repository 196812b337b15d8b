"""Asks the person at the terminal whether to trust the files of a folder."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ekiden.agents.definition import printable
from ekiden.cli.approval_prompt import is_attended, is_yes
from ekiden.cli.confirm import ask_line
from ekiden.core.current_agent import acting_agent
from ekiden.core.errors import FolderNotTrusted

if TYPE_CHECKING:
    from ekiden.project.settings import LoadedSettings
    from ekiden.project.trust import Risk, Workspace

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
