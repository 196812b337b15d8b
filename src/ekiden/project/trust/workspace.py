"""A project's folder as a person is asked to trust it: its risks, and the hash of its content."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ekiden.agents import AgentDefinition, LoadedAgents, agent_folders, load_agent_files
from ekiden.agents.discovery import find_files
from ekiden.core.current_agent import acting_agent
from ekiden.core.errors import EkidenError, SettingsInvalid
from ekiden.project.settings.file import read_content
from ekiden.project.settings.files import SettingsFiles, Unreadable, read_text, settings_files
from ekiden.project.settings.loaded import LoadedSettings
from ekiden.project.settings.model import SERVERS
from ekiden.project.settings.sources import load_settings
from ekiden.project.trust.folders import TrustedFolders
from ekiden.project.trust.modules import python_files, started_by
from ekiden.project.trust.risks import Risk, agent_risks, functions_of, settings_risks

_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Workspace:
    """A project's folder, and what in it needs trust."""

    root: Path
    risks: tuple[Risk, ...] = ()
    """Those that hold for what is to be done; without any, no trust is needed."""
    files: tuple[Path, ...] = ()
    """Settings, agent files, and the files that they name; none if there are no risks."""
    content: str = ""
    """A hash of these files."""
    home: Path | None = None

    @property
    def is_trusted(self) -> bool:
        """Whether nothing here needs trust, or the user trusts the folder with this content."""
        return not self.risks or TrustedFolders(self.home).has(self.root, self.content)

    def lines(self) -> tuple[Risk, ...]:
        """All that a yes is for: what options and variables of one command override, too."""
        found = list(self.risks)
        with suppress(SettingsInvalid):
            loaded = load_settings(self.root, environ={}, home=self.home)
            foreign = loaded.settings.agents.foreign_user_folders
            files = load_agent_files(self.root, home=self.home, foreign_user_folders=foreign)
            found += settings_risks(self.root, loaded, settings_files(self.root, self.home))
            found += agent_risks(self.root, loaded, files, home=self.home)
        return _in_order(dict.fromkeys(found))

    def trust(self) -> None:
        """Remember that the user trusts the folder with this content; `TrustNotStored`."""
        if self.risks:
            TrustedFolders(self.home).add(self.root, self.content)


def inspect_workspace(
    root: Path,
    loaded: LoadedSettings | None = None,
    files: LoadedAgents | None = None,
    *,
    team: str | None = None,
    home: Path | None = None,
) -> Workspace:
    """What in the folder `root` needs trust; nothing of it is run.

    `loaded` are its settings as they hold, by default as its files say; `files` its agents, where
    somebody has read them. With `team`, which the caller names, neither the setting of this name
    nor the agents' files are used. A project in the home folder is the user's own. Raises what
    `load_settings` does.
    """
    places = settings_files(root, home)
    loaded = load_settings(root, environ={}, home=home) if loaded is None else loaded
    if _is_home(root, places):
        return Workspace(root=root, home=home)
    foreign = loaded.settings.agents.foreign_user_folders
    left_out = () if team is None else ("team",)
    risks = list(settings_risks(root, loaded, places, leave_out=left_out))
    if team is None and loaded.settings.team is None:
        files = files or load_agent_files(root, home=home, foreign_user_folders=foreign)
        risks += agent_risks(root, loaded, files, home=home)
    if not risks:
        return Workspace(root=root, home=home)
    if files is None:
        files = load_agent_files(root, home=home)
    found = _files(root, files, home)
    return Workspace(
        root=root,
        risks=_in_order(risks),
        files=found,
        content=_hash(root, found),
        home=home,
    )


def _in_order(risks: Iterable[Risk]) -> tuple[Risk, ...]:
    return tuple(sorted(risks, key=lambda risk: (risk.path, risk.line)))


def _is_home(root: Path, files: SettingsFiles) -> bool:
    """Asked of the folders: a link to the user's settings makes no other folder the user's."""
    return files.user is not None and os.path.realpath(root) == os.path.realpath(
        files.user.parents[1]
    )


@contextmanager
def keeping_trust(root: Path | None = None) -> Iterator[None]:
    """Let a folder that needs no trust, or is trusted, stay so while a person changes a setting."""
    root = Path.cwd() if root is None else root
    before = was_trusted(root) is not None and acting_agent() is None
    yield
    if before:
        with suppress(EkidenError):
            inspect_workspace(root).trust()


def was_trusted(root: Path) -> Workspace | None:
    """The folder as it is now, if it needs no trust or is trusted."""
    with suppress(EkidenError):
        found = inspect_workspace(root.absolute())
        return found if found.is_trusted else None
    return None


def trust_written(root: Path, written: Collection[Path], *, before: Workspace | None) -> bool:
    """Trust the folder if all that counts in it was just `written`, or was trusted `before`.

    Gives whether it is trusted now; what an agent writes is not.
    """
    try:
        found = inspect_workspace(root)
    except SettingsInvalid:
        return False
    known = {os.path.realpath(path) for path in (*written, *(before.files if before else ()))}
    is_known = known.issuperset(os.path.realpath(path) for path in found.files)
    if is_known and not found.is_trusted and acting_agent() is None:
        found.trust()
    return found.is_trusted


def _files(root: Path, agents: LoadedAgents, home: Path | None) -> tuple[Path, ...]:
    """The files that the hash covers: nothing of it depends on environment or command line."""
    folders = agent_folders(root, home=home)
    ours = [each for each in folders if each.scope != "user"]
    found = {Path(each.path) for folder in ours for each in find_files(folder, [])}
    settings = settings_files(root, home).project
    if os.path.lexists(settings):
        found.add(settings)
    both = [_values(settings_files(root, home).user), _values(settings)]
    servers = [
        each for values in both for name, each in values.items() if name.startswith(f"{SERVERS}.")
    ]
    modules = [
        name.partition(":")[0]
        for each in (*agents.definitions, *agents.partial)
        if any(each.path.is_relative_to(folder.path) for folder in folders)
        for name in _functions(each)
    ]
    # The user's own file, too, may name code that is found in this folder.
    named = [values.get("team") for values in both]
    modules += [name.partition(":")[0] for name in named if isinstance(name, str)]
    started = [started_by(server, root) for server in servers]
    modules += [name for each in started for name in each.modules]
    scripts = [path for each in started for path in each.files]
    beside = [path for each in started for path in each.folders]
    return tuple(sorted({*found, *python_files(modules, scripts, root, beside=beside)}))


def _functions(definition: AgentDefinition) -> Iterator[str]:
    return (name for _, name, _ in functions_of(definition))


def _values(path: Path | None) -> Mapping[str, Any]:
    """The settings that one file has, as far as it can be read."""
    try:
        text = None if path is None else read_text(path)
    except Unreadable:
        return {}
    found = read_content(text or "", where="").values
    return {name: each.value for name, each in found.items()}


def _hash(root: Path, files: Iterable[Path]) -> str:
    whole = hashlib.sha256()
    for path in files:
        name = os.path.relpath(path, root)
        whole.update(f"{len(os.fsencode(name))}:".encode() + os.fsencode(name))
        whole.update(_digest(path))
    return whole.hexdigest()


def _digest(path: Path) -> bytes:
    """Of the file's bytes; of what is no file, or cannot be read, why."""
    digest = hashlib.sha256()
    try:
        # Not blocking: opening a pipe that nobody writes to would wait for ever.
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    except OSError as exc:
        return hashlib.sha256(f"unreadable {exc.errno}".encode()).digest()
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        return hashlib.sha256(b"no file").digest()
    with open(descriptor, "rb") as file:
        while data := file.read(_CHUNK):
            digest.update(data)
    return digest.digest()
