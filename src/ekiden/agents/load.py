"""Loads all agent files of a project and watches them for changes."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from ekiden.agents.agent_file import AgentFile, read_agent_file, read_agent_text, read_bytes
from ekiden.agents.definition import (
    AgentDefinition,
    AgentFileProblem,
    ProblemReport,
    printable,
    shown,
)
from ekiden.agents.discovery import AgentFolder, FoundFile, agent_folders, find_files
from ekiden.agents.team_checks import check_team

if TYPE_CHECKING:
    from ekiden.agents.definition_cache import DefinitionCache

_CACHED = 50
"""From this number of files on, definitions are cached; fewer files are parsed soon enough."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shadowed:
    """A file that is not used, because a folder of higher precedence has an agent with the same
    name."""

    name: str
    path: Path
    by: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedAgents:
    """The result of reading all agent files."""

    definitions: tuple[AgentDefinition, ...] = ()
    """The definitions in files without errors, sorted by folder and file name. Their handoffs to
    unknown agents are in `problems`."""
    partial: tuple[AgentDefinition, ...] = ()
    """The readable parts of files with errors. Use them only to check tools and handoffs."""
    problems: tuple[AgentFileProblem, ...] = ()
    """The errors and warnings of all files, sorted by path and line."""
    shadowed: tuple[Shadowed, ...] = ()

    @property
    def errors(self) -> tuple[AgentFileProblem, ...]:
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

    `agent_folders` lists the folders and their precedence for agents of the same name. `known`
    names agents that have no file, which handoffs in files may have as targets. Errors in the files
    are reported as problems and never raised::

        loaded = load_agent_files(".")
        print([definition.name for definition in loaded.definitions])
    """
    folders = agent_folders(Path(root), home=home, foreign_user_folders=foreign_user_folders)
    problems: list[AgentFileProblem] = []
    found = [(folder, find_files(folder, problems)) for folder in folders]
    if sum(len(files) for _, files in found) < _CACHED:
        listed = [(folder, [_file(each, folder) for each in files]) for folder, files in found]
    else:
        listed = _cached(Path(root), found)
    return combine(listed, problems, known=known)


def _cached(
    root: Path, found: Sequence[tuple[AgentFolder, Sequence[FoundFile]]]
) -> list[tuple[AgentFolder, list[AgentFile]]]:
    from ekiden.agents.definition_cache import DefinitionCache

    cache = DefinitionCache(root)
    listed = [
        (folder, [_cached_file(each, folder, cache) for each in files]) for folder, files in found
    ]
    cache.save()
    return listed


def _cached_file(found: FoundFile, folder: AgentFolder, cache: DefinitionCache) -> AgentFile:
    path, origin, scope = Path(found.path), folder.origin, folder.scope
    data = read_bytes(path, ProblemReport(path))
    if data is None:
        return _file(found, folder)
    key = cache.key(data, found.path, origin, scope)
    definition = cache.get(key, path)
    if definition is not None:
        return AgentFile(path=path, definition=definition, name=definition.name)
    file = read_agent_text(data, path=path, origin=origin, scope=scope)
    if file.definition is not None and not file.problems:
        cache.put(key, file.definition)
    return file


def combine(
    listed: Iterable[tuple[AgentFolder, Sequence[AgentFile]]],
    problems: Iterable[AgentFileProblem],
    *,
    known: Collection[str] = (),
) -> LoadedAgents:
    """Combine the files of all folders, which are listed in order of precedence."""
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


def _same_name(folder: AgentFolder, file: AgentFile, first: AgentFile) -> AgentFileProblem:
    place = file.definition
    return AgentFileProblem(
        path=file.path,
        line=place.line if place else 1,
        column=place.column if place else 1,
        code="agent.duplicate_name",
        message=f"{printable(str(first.path))} already has an agent called "
        f"{shown(file.name or '')}; rename one of them",
        severity="error" if folder.origin == "ekiden" else "warning",
    )


_SETTLED_NS = 100_000_000
"""Time stamps of file systems are coarse: a file written less than this before it was read can
change again without a new time stamp. Until then its content is compared."""


@dataclass(slots=True)
class _Known:
    """The last read of a file."""

    mark: tuple[int, ...]
    settled: bool
    file: AgentFile
    good: AgentDefinition | None
    """The last definition without errors."""


class AgentWatcher:
    """Keeps the agents of some folders up to date by polling.

    The watcher starts no thread: call `poll` regularly. A call takes a few milliseconds for a
    thousand files::

        watcher = AgentWatcher(agent_folders(Path.cwd()))
        if (loaded := watcher.poll()) is not None:
            print("the agents changed:", *loaded.definitions)

    If a change introduces errors, the last valid definition of the file stays in use, and the
    problems are reported.
    """

    def __init__(self, folders: Sequence[AgentFolder], *, known: Collection[str] = ()) -> None:
        """Read all files. `known` names agents that have no file."""
        self.folders = tuple(folders)
        self._known_names = tuple(known)
        self._files: dict[str, _Known] = {}
        self._folder_problems: list[AgentFileProblem] = []
        self.loaded = self._read(*self._list())
        """The result of the last read."""

    def changed(self) -> bool:
        """Whether a file was changed, added or removed since the last read."""
        listed, problems = self._list()
        found = [each for files in listed for each in files]
        if problems != self._folder_problems or len(found) != len(self._files):
            return True
        return any(self._is_changed(each, folder) for folder, each in self._each(listed))

    def poll(self) -> LoadedAgents | None:
        """Read changed files again and return all agents, or return `None` if nothing changed."""
        if not self.changed():
            return None
        self.loaded = self._read(*self._list())
        return self.loaded

    def _list(self) -> tuple[list[list[FoundFile]], list[AgentFileProblem]]:
        problems: list[AgentFileProblem] = []
        return [find_files(folder, problems) for folder in self.folders], problems

    def _each(self, listed: list[list[FoundFile]]) -> Iterator[tuple[AgentFolder, FoundFile]]:
        for folder, files in zip(self.folders, listed, strict=True):
            for found in files:
                yield folder, found

    def _is_changed(self, found: FoundFile, folder: AgentFolder) -> bool:
        known = self._files.get(found.path)
        if known is None or known.mark != found.mark:
            return True
        if known.settled:
            return False
        # Decided before the file is read, because the file may change during the read.
        known.settled = _is_settled(found)
        return _file(found, folder) != known.file

    def _read(
        self, listed: list[list[FoundFile]], problems: list[AgentFileProblem]
    ) -> LoadedAgents:
        files: dict[str, _Known] = {}
        for folder, found in self._each(listed):
            known = self._files.get(found.path)
            if known is None or known.mark != found.mark or not known.settled:
                settled = _is_settled(found)
                file = _file(found, folder)
                failed = any(each.severity == "error" for each in file.problems)
                good = file.definition or (known.good if known and failed else None)
                known = _Known(found.mark, settled, file, good)
            files[found.path] = known
        self._files, self._folder_problems = files, problems
        combined = [
            (folder, [_usable(files[found.path]) for found in each])
            for folder, each in zip(self.folders, listed, strict=True)
        ]
        return combine(combined, problems, known=self._known_names)


def _file(found: FoundFile, folder: AgentFolder) -> AgentFile:
    return read_agent_file(found.path, origin=folder.origin, scope=folder.scope)


def _is_settled(found: FoundFile) -> bool:
    return time.time_ns() - found.changed_ns > _SETTLED_NS


def _usable(known: _Known) -> AgentFile:
    if known.good is None or known.good is known.file.definition:
        return known.file
    return replace(known.file, definition=known.good, partial=None, name=known.good.name)
