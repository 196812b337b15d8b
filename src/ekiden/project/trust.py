"""Project folders as workspaces: their risks, the hash of their content, and the list of trusted
folders."""

from __future__ import annotations

import hashlib
import os
import stat
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeAlias

from ekiden.agents import AgentDefinition, LoadedAgents, agent_folders, load_agent_files
from ekiden.agents.discovery import find_files
from ekiden.core.current_agent import acting_agent
from ekiden.core.dataclass import dataclass
from ekiden.core.errors import EkidenError, SettingsInvalid, TrustNotStored
from ekiden.core.values import dumps, loads
from ekiden.project.risks import (
    Risk,
    agent_risks,
    functions_of,
    python_files,
    settings_risks,
    started_by,
)
from ekiden.project.settings.files import (
    SettingsFiles,
    Unreadable,
    locked,
    read_content,
    read_text,
    replace_file,
    settings_files,
)
from ekiden.project.settings.model import SERVERS
from ekiden.project.settings.sources import LoadedSettings, load_settings

FILE = "trusted.json"
_VERSION = 1
_CONTENTS = 20
"""The maximum number of trusted contents of one folder; the newest are kept. After a change back to
another branch, no new approval is needed."""
_PATIENCE_S = 10.0

_Folders: TypeAlias = dict[str, dict[str, float]]
"""By folder, the hashes of its trusted contents with the time of the approval."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrustedFolder:
    """A trusted folder."""

    folder: str
    hashes: Mapping[str, float]
    """The hashes of the trusted contents of the folder. The values are the times of approval, in
    seconds since 1970."""


class TrustedFolders:
    """The user's list of trusted folders, ``~/.ekiden/trusted.json``. A folder is identified by its
    real path.

    If the file is unreadable, no folder is trusted, and the next `add` replaces the file.
    """

    def __init__(self, home: Path | None = None) -> None:
        user = settings_files(home=home).user
        self._path = None if user is None else Path(os.path.realpath(user.with_name(FILE)))

    def has(self, folder: Path, content: str) -> bool:
        """Whether the folder is trusted with this content."""
        return content in self._read().get(os.path.realpath(folder), {})

    def add(self, folder: Path, content: str) -> None:
        """Trust the folder with this content. Raises `TrustNotStored` if the list cannot be
        written."""

        def added(folders: _Folders) -> None:
            known = folders.pop(os.path.realpath(folder), {})
            known.pop(content, None)
            newest = [*known.items(), (content, time.time())][-_CONTENTS:]
            folders[os.path.realpath(folder)] = dict(newest)

        self._change(added)

    def remove(self, folder: Path) -> bool:
        """Stop trusting the folder with any content. Returns whether the folder was trusted."""
        name = os.path.realpath(folder)
        if name not in self._read():
            return False
        self._change(lambda folders: folders.pop(name, None))
        return True

    def all(self) -> list[TrustedFolder]:
        """Every trusted folder, by its path."""
        return [
            TrustedFolder(folder=name, hashes=each) for name, each in sorted(self._read().items())
        ]

    def _change(self, change: Callable[[_Folders], object]) -> None:
        path = self._path
        if path is None:
            raise TrustNotStored("the home folder is unknown; set HOME")
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with locked(path, timeout_s=_PATIENCE_S):
                folders = self._read()
                change(folders)
                if path.exists():
                    # `replace_file` keeps the mode of an old file that others may be able to read.
                    os.chmod(path, 0o600)
                replace_file(path, dumps({"version": _VERSION, "folders": folders}).encode())
        except TimeoutError as exc:
            raise TrustNotStored(
                f"another process has been changing {path} for {_PATIENCE_S:g} s; try again"
            ) from exc
        except OSError as exc:
            raise TrustNotStored(f"cannot write {path}: {exc.strerror or exc}") from exc

    def _read(self) -> _Folders:
        if self._path is None:
            return {}
        try:
            found = loads(self._path.read_bytes())
        except FileNotFoundError:
            return {}
        except OSError as exc:
            raise TrustNotStored(f"cannot read {self._path}: {exc.strerror or exc}") from exc
        except ValueError:
            return {}
        version = found.get("version") if isinstance(found, dict) else None
        if isinstance(version, int) and version > _VERSION:
            raise TrustNotStored(f"a newer Ekiden wrote {self._path}: update this one")
        return _checked(found) if version == _VERSION else {}


def _is_time(value: object) -> bool:
    return isinstance(value, int | float) and 0 <= value < 1e11


def _checked(found: dict[str, Any]) -> _Folders:
    folders = found.get("folders")
    if not isinstance(folders, dict):
        return {}
    return {
        name: {each: float(at) for each, at in known.items() if _is_time(at)}
        for name, known in folders.items()
        if isinstance(known, dict)
    }


_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Workspace:
    """A project folder, and the lines in its files that need trust."""

    root: Path
    risks: tuple[Risk, ...] = ()
    """The lines that apply to the current command. If there are no such lines, no trust is
    needed."""
    files: tuple[Path, ...] = ()
    """The settings file, the agent files, and the files that they name. The tuple is empty if there
    are no risks."""
    content: str = ""
    """A hash of `files`."""
    home: Path | None = None

    @property
    def is_trusted(self) -> bool:
        """Whether the folder needs no trust, or the user trusts the folder with this content."""
        return not self.risks or TrustedFolders(self.home).has(self.root, self.content)

    def lines(self) -> tuple[Risk, ...]:
        """All lines that the user's approval covers, including lines that options or environment
        variables of one command override."""
        found = list(self.risks)
        with suppress(SettingsInvalid):
            loaded = load_settings(self.root, environ={}, home=self.home)
            foreign = loaded.settings.agents.foreign_user_folders
            files = load_agent_files(self.root, home=self.home, foreign_user_folders=foreign)
            found += settings_risks(self.root, loaded, settings_files(self.root, self.home))
            found += agent_risks(self.root, loaded, files, home=self.home)
        return _in_order(dict.fromkeys(found))

    def trust(self) -> None:
        """Store that the user trusts the folder with this content. Raises `TrustNotStored`."""
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
    """Find the lines in the folder `root` that need trust, without running any of its code.

    `loaded` are the settings of the folder, by default read from its files. `files` are the agent
    files, if they were already read. With `team`, neither the setting `team` nor the agent files
    are used. A project in the home folder belongs to the user and needs no trust. Raises the errors
    of `load_settings`.
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
        root=root, risks=_in_order(risks), files=found, content=_hash(root, found), home=home
    )


def _in_order(risks: Iterable[Risk]) -> tuple[Risk, ...]:
    return tuple(sorted(risks, key=lambda risk: (risk.path, risk.line)))


def _is_home(root: Path, files: SettingsFiles) -> bool:
    """Whether `root` is the home folder. A link to the user's settings file does not count."""
    return files.user is not None and os.path.realpath(root) == os.path.realpath(
        files.user.parents[1]
    )


@contextmanager
def keeping_trust(root: Path | None = None) -> Iterator[None]:
    """Keep the folder trusted while a person changes a setting in the ``with`` block. A folder that
    was not trusted before stays untrusted."""
    root = Path.cwd() if root is None else root
    before = was_trusted(root) is not None and acting_agent() is None
    yield
    if before:
        with suppress(EkidenError):
            inspect_workspace(root).trust()


def was_trusted(root: Path) -> Workspace | None:
    """The current workspace, if it is trusted or needs no trust; otherwise `None`."""
    with suppress(EkidenError):
        found = inspect_workspace(root.absolute())
        return found if found.is_trusted else None
    return None


def trust_written(root: Path, written: Collection[Path], *, before: Workspace | None) -> bool:
    """Trust the folder if each of its files was just written (`written`), or was trusted before
    (`before`).

    Returns whether the folder is trusted now. Files that an agent wrote are not trusted.
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
    """The files that the hash covers. They do not depend on environment or command line."""
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
    # The user's file may also name code in this folder.
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
    """The readable settings in one file."""
    try:
        text = None if path is None else read_text(path)
    except Unreadable:
        return {}
    found = read_content(text or "", where="").values
    return {name: each.value for name, each in found.items()}


def _hash(root: Path, files: Iterable[Path]) -> str:
    digest = hashlib.sha256()
    for path in files:
        name = os.path.relpath(path, root)
        digest.update(f"{len(os.fsencode(name))}:".encode() + os.fsencode(name))
        digest.update(_digest(path))
    return digest.hexdigest()


def _digest(path: Path) -> bytes:
    """The digest of a file's bytes. For an unreadable file, the digest of the error."""
    digest = hashlib.sha256()
    try:
        # Non-blocking: opening a pipe without a writer would wait for ever.
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
