"""The project of the current folder, as the commands take it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from ekiden.cli.output import note
from ekiden.core.jsonio import dumps

if TYPE_CHECKING:
    from ekiden.agents.definition import Problem
    from ekiden.app.addressing import AddressedMessage
    from ekiden.app.project import Project
    from ekiden.app.settings import Settings


def settings_here() -> Settings:
    """The settings of the current folder."""
    from ekiden.app.settings import load_settings

    return load_settings(Path.cwd()).settings


def open_project(
    *,
    team: str | None = None,
    model: str | None = None,
    strategy: str | None = None,
    keep_going: bool = False,
    inert: bool = False,
    trust: bool = False,
    as_json: bool = False,
) -> Project:
    """The team here: `team`, the project's own, or the demo; options override the settings.

    With `keep_going` files that have an error are left out, and named on standard error. With
    `inert` the project is only looked at. With `trust` nobody is asked whether its files are to be
    trusted. Raises what `load_project` does, and `FolderNotTrusted`.
    """
    from ekiden.agents import load_agent_files
    from ekiden.app.project import load_project
    from ekiden.app.settings import load_settings
    from ekiden.app.trust import inspect_workspace
    from ekiden.cli.trust_question import check_trust

    root = Path.cwd()
    overrides = {"model": model, "agents.routing.strategy": strategy}
    while True:
        loaded = load_settings(root, overrides=overrides)
        files = None
        if (team or loaded.settings.team) is None:
            foreign = loaded.settings.agents.foreign_user_folders
            files = load_agent_files(root, foreign_user_folders=foreign)
        was_asked = check_trust(inspect_workspace(root, loaded, files, team=team), trust=trust)
        if not was_asked:
            break
    project = load_project(
        root, overrides=overrides, team=team, keep_going=keep_going, inert=inert, files=files
    )
    project.tell = lambda text: _tell(text, as_json=as_json)
    left_out = [problem for problem in project.problems if problem.severity == "error"]
    tell_problems(left_out, as_json=as_json)
    return project


def check_addressee(project: Project, address: AddressedMessage) -> None:
    """`UnknownAgent` if a message is for somebody whom the team does not have.

    To be asked before anything is stored.
    """
    from ekiden.app.addressing import AUTO

    if address.to is not None and address.to != AUTO:
        project.team[address.to]


def tell_problems(problems: Iterable[Problem], *, as_json: bool) -> None:
    """Name what is wrong with files, on standard error."""
    for problem in problems:
        note(dumps({"problem": problem.to_json()}) if as_json else str(relative(problem)))


def tell_notes(project: Project, *, as_json: bool) -> None:
    """Say what a person should know of the project, such as a server that cannot be reached."""
    for text in project.notes:
        _tell(text, as_json=as_json)


def _tell(text: str, *, as_json: bool) -> None:
    note(dumps({"note": text}) if as_json else text)


def store_address(option: str | None) -> str:
    """Where sessions are kept: the option, else the settings, else their default.

    `FolderNotTrusted` if the project's settings name a database, and the folder is not trusted.
    """
    if option is not None:
        return option
    from ekiden.app.settings import load_settings
    from ekiden.cli.trust_question import check_addresses

    loaded = load_settings(Path.cwd())
    check_addresses(loaded, Path.cwd(), "store")
    return loaded.settings.store


def relative(problem: Problem) -> Problem:
    """The problem with a path that is short to read from here."""
    from dataclasses import replace

    try:
        return replace(problem, path=problem.path.relative_to(Path.cwd()))
    except ValueError:
        return problem
