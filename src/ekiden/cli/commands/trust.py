"""`ekiden trust`."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from ekiden.cli.errors import UsageError
from ekiden.cli.options import JsonOption
from ekiden.cli.terminal.output import emit, say


def trust(
    folder: Annotated[
        Path, Parameter(help="The project's folder; by default the current one.")
    ] = Path(),
    /,
    *,
    show: Annotated[
        bool,
        Parameter(
            name="--show",
            negative="",
            show_default=False,
            help="Only show what needs trust, and whether the folder is trusted.",
        ),
    ] = False,
    listed: Annotated[
        bool,
        Parameter(
            name="--list", negative="", show_default=False, help="List the folders you trust."
        ),
    ] = False,
    revoke: Annotated[
        bool,
        Parameter(
            name="--revoke",
            negative="",
            show_default=False,
            help="Stop trusting the folder.",
        ),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Trust the files of a folder: the code, commands and addresses in them.

    A project's files can import code, start programs, send your keys and switch approval off.
    Commands that load a project show such lines and ask once; without a terminal they refuse. After
    a change of the settings, the agent files, or the code that they name, they ask again.

    The list of trusted folders is ~/.ekiden/trusted.json.
    """
    if sum((show, listed, revoke)) > 1:
        raise UsageError("--show, --list and --revoke exclude each other: give one")
    if listed:
        _list(as_json=as_json)
    elif revoke:
        _revoke(folder, as_json=as_json)
    else:
        _trust(folder, only_show=show, as_json=as_json)


def _trust(folder: Path, *, only_show: bool, as_json: bool) -> None:
    from ekiden.cli.terminal.prompts import NotTrustedYet, listed
    from ekiden.core.current_agent import acting_agent
    from ekiden.project.trust import inspect_workspace

    if not folder.is_dir():
        raise UsageError(f"there is no folder {folder}")
    found = inspect_workspace(folder.absolute())
    lines = found.lines() if found.risks else ()
    if not only_show and not found.is_trusted:
        if acting_agent() is not None:
            raise NotTrustedYet(found)
        found.trust()
    if as_json:
        record: dict[str, Any] = {
            "folder": str(found.root),
            "trusted": found.is_trusted,
            "content": found.content or None,
            "lines": [risk.to_json() for risk in lines],
        }
        emit(record)
        return
    for line in listed(lines):
        say(line)
    if not found.risks:
        say(f"nothing in {found.root} needs trust")
    elif found.is_trusted:
        say(f"{found.root} is trusted in its current state")
    else:
        say(f"{found.root} is not trusted; `ekiden trust` trusts its current state")


def _list(*, as_json: bool) -> None:
    from ekiden.cli.terminal.tables import print_table
    from ekiden.project.trust import TrustedFolders

    rows = [
        (each.folder, datetime.fromtimestamp(max(each.hashes.values(), default=0.0), tz=UTC))
        for each in TrustedFolders().all()
    ]
    if as_json:
        emit([{"folder": folder, "trusted_at": at.isoformat()} for folder, at in rows])
        return
    print_table(("folder", "trusted at"), [(each, f"{at:%Y-%m-%d %H:%M}") for each, at in rows])


def _revoke(folder: Path, *, as_json: bool) -> None:
    from ekiden.project.trust import TrustedFolders

    was_trusted = TrustedFolders().remove(folder)
    if as_json:
        emit({"folder": str(folder.absolute()), "revoked": was_trusted})
    else:
        say(
            f"{folder.absolute()} {'is not trusted any more' if was_trusted else 'was not trusted'}"
        )
