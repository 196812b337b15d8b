"""All agent files of a project: good ones as definitions, beside what is wrong with the others."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ekiden.agents.agent_file import AgentFile, read_agent_file
from ekiden.agents.definition import AgentDefinition, Problem, printable
from ekiden.agents.discovery import AgentFolder, agent_folders, find_files
from ekiden.agents.report import shown
from ekiden.agents.team_checks import check_team


@dataclass(frozen=True, slots=True, kw_only=True)
class Shadowed:
    """A file that is not used because another one, of a folder that wins, has its name."""

    name: str
    path: Path
    by: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedAgents:
    """The result of reading the files."""

    definitions: tuple[AgentDefinition, ...] = ()
    """Of the files without errors, by folder and file name. A handoff may lead to an agent that
    is not there: that is among the problems."""
    partial: tuple[AgentDefinition, ...] = ()
    """Of the files with errors, what could be read: only to check tools and handoffs with."""
    problems: tuple[Problem, ...] = ()
    """Of all files, by path and line; warnings too."""
    shadowed: tuple[Shadowed, ...] = ()

    @property
    def errors(self) -> tuple[Problem, ...]:
        """The problems that make a file or a handoff unusable."""
        return tuple(problem for problem in self.problems if problem.severity == "error")


def load_agent_files(
    root: Path | str,
    *,
    home: Path | None = None,
    foreign_user_folders: bool = False,
    known: Collection[str] = (),
) -> LoadedAgents:
    """Read all agent files of the project in `root`.

    `agent_folders` lists the folders and their precedence for agents of the same name. `known` are
    agents that are not in files, to which files may hand over. Errors in the files are reported as
    problems, never raised::

        loaded = load_agent_files(".")
        print([definition.name for definition in loaded.definitions])
    """
    folders = agent_folders(Path(root), home=home, foreign_user_folders=foreign_user_folders)
    problems: list[Problem] = []
    listed = [
        (
            folder,
            [
                read_agent_file(found.path, origin=folder.origin, scope=folder.scope)
                for found in find_files(folder, problems)
            ],
        )
        for folder in folders
    ]
    return combine(listed, problems, known=known)


def combine(
    listed: Iterable[tuple[AgentFolder, Sequence[AgentFile]]],
    problems: Iterable[Problem],
    *,
    known: Collection[str] = (),
) -> LoadedAgents:
    """The files of all folders together; the folder that comes first wins."""
    all_problems = list(problems)
    definitions: list[AgentDefinition] = []
    partial: list[AgentDefinition] = []
    shadowed: list[Shadowed] = []
    taken: dict[str, AgentFile] = {}
    for folder, files in listed:
        here: dict[str, AgentFile] = {}
        for file in files:
            name = file.name
            if name is not None and name in taken:
                shadowed.append(Shadowed(name=name, path=file.path, by=taken[name].path))
                all_problems.extend(replace(each, severity="warning") for each in file.problems)
                continue
            all_problems.extend(file.problems)
            if name is not None and name in here:
                all_problems.append(_same_name(folder, file, here[name]))
                continue
            if name is not None:
                here[name] = file
            if file.definition is not None:
                definitions.append(file.definition)
            elif file.partial is not None:
                partial.append(file.partial)
        taken.update(here)
    all_problems.extend(check_team(definitions, known={*known, *taken}, partial=partial))
    return LoadedAgents(
        definitions=tuple(definitions),
        partial=tuple(partial),
        problems=tuple(sorted(all_problems)),
        shadowed=tuple(shadowed),
    )


def _same_name(folder: AgentFolder, file: AgentFile, first: AgentFile) -> Problem:
    place = file.definition
    return Problem(
        path=file.path,
        line=place.line if place else 1,
        column=place.column if place else 1,
        code="agent.duplicate_name",
        message=f"{printable(str(first.path))} already has an agent called "
        f"{shown(file.name or '')}; rename one of them",
        severity="error" if folder.origin == "ekiden" else "warning",
    )
