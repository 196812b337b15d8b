"""Finds the folders with agent files, and the files in these folders."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from ekiden.agents.definition import AgentFileProblem, Origin
from ekiden.core.dataclass import dataclass
from ekiden.core.home import home_folder
from ekiden.core.profile import Scope

MAX_FILES = 10_000
"""The maximum number of agent files in one folder."""
_MAX_NESTING = 8

_FOREIGN: tuple[tuple[str, Origin], ...] = (
    (".claude", "claude"),
    (".gemini", "gemini"),
    (".agents", "agents"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentFolder:
    """A folder with agent files."""

    path: Path
    origin: Origin = "ekiden"
    scope: Scope = "project"
    nested: bool = False
    """Whether subfolders are included."""


class FoundFile(NamedTuple):
    """An unread file in a folder."""

    path: str
    mark: tuple[int, ...]
    """A value that changes when the file is changed or replaced. It is empty if the file's status
    cannot be read."""
    changed_ns: int
    """The time of the last write or rename, in nanoseconds since 1970."""


def agent_folders(
    root: Path, *, home: Path | None = None, foreign_user_folders: bool = False
) -> tuple[AgentFolder, ...]:
    """The agent folders in order of precedence.

    The project's folders come first: `.ekiden/agents`, then `.claude/agents`, `.gemini/agents` and
    `.agents/agents` with their subfolders, then `.agents` itself. The user's folder
    `~/.ekiden/agents` follows. With `foreign_user_folders`, the folders of other tools in the home
    folder come last, such as `~/.claude/agents`. If the home folder is unknown, it has none. Tests
    pass `home` to replace the home folder.
    """
    home = home_folder() if home is None else home
    folders = [AgentFolder(path=root / ".ekiden" / "agents"), *_foreign(root, "project")]
    if home is not None and not _same(home, root):
        folders.append(AgentFolder(path=home / ".ekiden" / "agents", scope="user"))
        if foreign_user_folders:
            folders.extend(_foreign(home, "user"))
    return tuple(folders)


def _foreign(base: Path, scope: Scope) -> Iterator[AgentFolder]:
    for name, origin in _FOREIGN:
        yield AgentFolder(path=base / name / "agents", origin=origin, scope=scope, nested=True)
    yield AgentFolder(path=base / ".agents", origin="agents", scope=scope)


def _same(one: Path, other: Path) -> bool:
    try:
        return os.path.samefile(one, other)
    except OSError:
        return False


def find_files(folder: AgentFolder, problems: list[AgentFileProblem]) -> list[FoundFile]:
    """The agent files in the folder, sorted by path. A missing folder has no files.

    Files whose names begin with a dot are ignored, because they are temporary files of editors.
    """
    found: list[FoundFile] = []
    waiting = [(str(folder.path), 0)]
    while waiting:
        path, depth = waiting.pop()
        try:
            with os.scandir(path) as entries:
                for entry in entries:
                    if entry.name.startswith("."):
                        continue
                    if folder.nested and entry.is_dir(follow_symlinks=False):
                        if depth < _MAX_NESTING:
                            waiting.append((entry.path, depth + 1))
                    elif entry.name.endswith(".md"):
                        found.append(_found(entry))
        except (FileNotFoundError, NotADirectoryError) as exc:
            if depth == 0 and isinstance(exc, NotADirectoryError):
                problems.append(_problem(folder, path, "it is a file; make it a folder"))
        except OSError as exc:
            problems.append(_problem(folder, path, exc.strerror or str(exc)))
        if len(found) > MAX_FILES:
            words = f"it has more than {MAX_FILES:,} files; remove some"
            problems.append(_problem(folder, path, words))
            break
    found.sort(key=lambda each: each.path)
    return found[:MAX_FILES]


def _found(entry: os.DirEntry[str]) -> FoundFile:
    try:
        seen = entry.stat()
    except OSError:
        # Reading the file reports the error; the empty mark keeps it from being reported again.
        return FoundFile(entry.path, (), 0)
    mark = (seen.st_mtime_ns, seen.st_ctime_ns, seen.st_size, seen.st_ino, seen.st_mode)
    # On Windows, ctime is the time of creation.
    return FoundFile(entry.path, mark, mark[1] if os.name == "posix" else mark[0])


def _problem(folder: AgentFolder, path: str, why: str) -> AgentFileProblem:
    return AgentFileProblem(
        path=Path(path),
        line=1,
        column=1,
        code="agent.unreadable_folder",
        message=f"the folder cannot be read: {why}",
        severity="error" if folder.origin == "ekiden" else "warning",
    )
