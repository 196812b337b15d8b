"""Notices when agent files change, and reads again only those that did."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from ekiden.agents.agent_file import AgentFile, read_agent_file
from ekiden.agents.definition import AgentDefinition, Problem
from ekiden.agents.discovery import AgentFolder, FoundFile, find_files
from ekiden.agents.load import LoadedAgents, combine

_SETTLED_NS = 100_000_000
"""A file written less than this before it was read may be written again at, for the file system,
the same time; until then its content is compared."""


@dataclass(slots=True)
class _Known:
    """A file as it was last read."""

    mark: tuple[int, ...]
    settled: bool
    file: AgentFile
    good: AgentDefinition | None
    """The last definition without errors."""


class AgentWatcher:
    """The agents of some folders, reloaded by polling.

    It has no thread: a chat or server calls `poll`, which takes some milliseconds for a thousand
    files::

        watcher = AgentWatcher(agent_folders(Path.cwd()))
        if (loaded := watcher.poll()) is not None:
            print("the agents changed:", *loaded.definitions)

    A file with new errors keeps its last valid definition, and its problems are reported.
    """

    def __init__(self, folders: Sequence[AgentFolder], *, known: Collection[str] = ()) -> None:
        """Reads all files; `known` are agents that are not in files."""
        self.folders = tuple(folders)
        self._known_names = tuple(known)
        self._files: dict[str, _Known] = {}
        self._folder_problems: list[Problem] = []
        self.loaded = self._read(*self._list())
        """What the files gave when they were last read."""

    def changed(self) -> bool:
        """Whether a file was written, added or removed since the last reading."""
        listed, problems = self._list()
        found = [each for files in listed for each in files]
        if problems != self._folder_problems or len(found) != len(self._files):
            return True
        return any(self._is_new(each, folder) for folder, each in self._each(listed))

    def poll(self) -> LoadedAgents | None:
        """Read changed files again; `None` if nothing changed."""
        if not self.changed():
            return None
        self.loaded = self._read(*self._list())
        return self.loaded

    def _list(self) -> tuple[list[list[FoundFile]], list[Problem]]:
        problems: list[Problem] = []
        return [find_files(folder, problems) for folder in self.folders], problems

    def _each(self, listed: list[list[FoundFile]]) -> Iterator[tuple[AgentFolder, FoundFile]]:
        for folder, files in zip(self.folders, listed, strict=True):
            for found in files:
                yield folder, found

    def _is_new(self, found: FoundFile, folder: AgentFolder) -> bool:
        known = self._files.get(found.path)
        if known is None or known.mark != found.mark:
            return True
        if known.settled:
            return False
        known.settled = _is_settled(found)
        return _file(found, folder) != known.file

    def _read(self, listed: list[list[FoundFile]], problems: list[Problem]) -> LoadedAgents:
        files: dict[str, _Known] = {}
        for folder, found in self._each(listed):
            known = self._files.get(found.path)
            if known is None or known.mark != found.mark or not known.settled:
                settled = _is_settled(found)
                file = _file(found, folder)
                good = file.definition or (known.good if known and _is_bad(file) else None)
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


def _is_bad(file: AgentFile) -> bool:
    return any(problem.severity == "error" for problem in file.problems)


def _usable(known: _Known) -> AgentFile:
    if known.good is None or known.good is known.file.definition:
        return known.file
    return replace(known.file, definition=known.good, partial=None, name=known.good.name)
