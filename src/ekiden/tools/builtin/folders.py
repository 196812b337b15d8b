"""Keeps paths inside the project's folder, even if links change, and protects secret files.

A path is resolved here, part by part. Each folder is opened relative to its parent folder, without
following links, and stays open. A link is read, and its target is resolved in the same way. So a
link may lead to another place inside the root, but never out of the root. There is no race between
check and use, because the folder that was checked is the folder that is open.

Windows cannot open a file relative to a folder. There, whole paths are used, and a link that is
swapped between check and use is not noticed.
"""

from __future__ import annotations

import os
import re
import stat
import unicodedata
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from ekiden.core.dataclass import dataclass
from ekiden.core.errors import ToolError
from ekiden.core.home import home_folder
from ekiden.core.text.wording import lazy_pattern

HAS_HANDLES = {os.open, os.stat, os.readlink, os.mkdir, os.rename, os.unlink} <= os.supports_dir_fd

_NOFOLLOW = getattr(os, "O_NOFOLLOW", 0)
_CLOEXEC = getattr(os, "O_CLOEXEC", 0)
_BINARY = getattr(os, "O_BINARY", 0)
_NONBLOCK = getattr(os, "O_NONBLOCK", 0)
_DIRECTORY = getattr(os, "O_DIRECTORY", 0)
_MAX_LINKS = 40
_MAX_PARTS = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Folder:
    """An open folder. Its methods do not follow links."""

    path: str
    handle: int | None

    def _at(self, name: str) -> str:
        return name if self.handle is not None else os.path.join(self.path, name)

    def stat(self, name: str) -> os.stat_result:
        """The status of an entry. For a link, this is the status of the link itself."""
        return os.stat(self._at(name), dir_fd=self.handle, follow_symlinks=False)

    def link(self, name: str) -> str:
        """The target of a link."""
        return os.readlink(self._at(name), dir_fd=self.handle)

    def open(self, name: str, flags: int, mode: int = 0o666) -> int:
        """Open a file, and return its descriptor. The call never blocks on a pipe."""
        flags |= _NOFOLLOW | _CLOEXEC | _BINARY | _NONBLOCK
        return os.open(self._at(name), flags, mode, dir_fd=self.handle)

    def enter(self, name: str) -> Folder:
        """Open a subfolder. The caller closes it."""
        path = os.path.join(self.path, name)
        if self.handle is None:
            return Folder(path=path, handle=None)
        flags = os.O_RDONLY | _DIRECTORY | _NOFOLLOW | _CLOEXEC
        return Folder(path=path, handle=os.open(name, flags, dir_fd=self.handle))

    def make(self, name: str) -> None:
        """Create a subfolder unless it exists."""
        with suppress(FileExistsError):
            os.mkdir(self._at(name), dir_fd=self.handle)

    def replace(self, source: str, target: str) -> None:
        """Rename `source` to `target`, and replace an existing `target`."""
        os.replace(
            self._at(source), self._at(target), src_dir_fd=self.handle, dst_dir_fd=self.handle
        )

    def remove(self, name: str) -> None:
        """Delete a file."""
        os.unlink(self._at(name), dir_fd=self.handle)

    def names(self) -> list[str]:
        """The sorted names of the entries in the folder. The names of folders end with a slash."""
        with os.scandir(self.path if self.handle is None else self.handle) as entries:
            return sorted(
                f"{each.name}/" if each.is_dir(follow_symlinks=False) else each.name
                for each in entries
            )

    def sync(self) -> None:
        """Write the names of the folder's entries to disk."""
        if self.handle is not None:
            os.fsync(self.handle)

    def close(self) -> None:
        """Close the folder."""
        if self.handle is not None:
            os.close(self.handle)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedPath:
    """A path after resolution of its links."""

    folder: Folder
    """The last existing folder of the path. It is open in the body of ``with locate(…)``."""
    parts: tuple[str, ...]
    """The names from the root, with all links resolved."""
    missing: tuple[str, ...] = ()
    """The last names in `parts` that do not exist."""
    is_folder: bool = False
    """Whether the path is `folder` itself."""
    links: tuple[tuple[str, ...], ...] = ()
    """The links that were resolved, each as names from the root."""

    @property
    def name(self) -> str:
        """The path from the root, with slashes."""
        return "/".join(self.parts) or "."


@contextmanager
def locate(root: Path, path: str, *, by_handle: bool = HAS_HANDLES) -> Iterator[ResolvedPath]:
    """Resolve `path` from `root`. Raises `ToolError` if the path leads out of `root` or is
    invalid."""
    walk = _Walk(root, path, by_handle)
    with ExitStack() as stack:
        stack.callback(walk.close)
        try:
            yield walk.go()
        except OSError as exc:
            raise ToolError(f"{path!r} cannot be opened: {exc.strerror or exc}") from exc
        except ValueError as exc:  # a zero byte, or what no file name can have
            raise ToolError(f"{path!r} cannot be the name of a file") from exc


class _Walk:
    def __init__(self, root: Path, path: str, by_handle: bool) -> None:
        self._path = path
        self._root = os.path.realpath(root)
        self._bases = {os.path.abspath(root), self._root}
        self._by_handle = by_handle
        self._folders: list[Folder] = []
        self._names: list[str] = []
        self._followed: list[tuple[str, ...]] = []

    def go(self) -> ResolvedPath:
        if not self._path or "\0" in self._path:
            raise ValueError
        todo = deque(self._from_root(self._path))
        flags = os.O_RDONLY | _DIRECTORY | _CLOEXEC
        handle = os.open(self._root, flags) if self._by_handle else None
        self._folders.append(Folder(path=self._root, handle=handle))
        while todo:
            part = todo.popleft()
            if part == "..":
                self._up()
                continue
            here = self._folders[-1]
            try:
                mode = here.stat(part).st_mode
            except FileNotFoundError:
                return self._missing([part, *todo])
            if stat.S_ISLNK(mode):
                self._followed.append((*self._names, part))
                todo.extendleft(reversed(self._target(here.link(part))))
            elif stat.S_ISDIR(mode):
                self._folders.append(here.enter(part))
                self._names.append(part)
            elif todo:
                raise ToolError(f"{self._path!r}: {part!r} is not a folder")
            else:
                return self._place(here, (*self._names, part))
        return self._place(self._folders[-1], tuple(self._names), is_folder=True)

    def close(self) -> None:
        while self._folders:
            self._folders.pop().close()

    def _missing(self, rest: list[str]) -> ResolvedPath:
        if ".." in rest:
            raise ToolError(f"{self._path!r} goes back from a folder that does not exist")
        return self._place(self._folders[-1], (*self._names, *rest), missing=tuple(rest))

    def _place(
        self,
        folder: Folder,
        parts: tuple[str, ...],
        *,
        missing: tuple[str, ...] = (),
        is_folder: bool = False,
    ) -> ResolvedPath:
        return ResolvedPath(
            folder=folder,
            parts=parts,
            missing=missing,
            is_folder=is_folder,
            links=tuple(self._followed),
        )

    def _up(self) -> None:
        if len(self._folders) == 1:
            raise self._outside()
        self._folders.pop().close()
        self._names.pop()

    def _target(self, link: str) -> list[str]:
        if len(self._followed) > _MAX_LINKS:
            raise ToolError(f"{self._path!r} has too many links in it")
        if os.path.isabs(link):
            parts = self._from_root(link)
            while len(self._folders) > 1:
                self._up()
            return parts
        return _parts(link)

    def _from_root(self, path: str) -> list[str]:
        if not os.path.isabs(path):
            return _parts(path)
        for base in self._bases:
            if path == base or path.startswith(base.rstrip(os.sep) + os.sep):
                return _parts(path[len(base) :])
        raise self._outside()

    def _outside(self) -> ToolError:
        return ToolError(
            f"{self._path!r} is outside of the project's folder: give a path inside it, as in "
            "'docs/notes.md'"
        )


def _parts(path: str) -> list[str]:
    if os.altsep:
        path = path.replace(os.altsep, os.sep)
    parts = [part for part in path.split(os.sep) if part not in ("", ".")]
    if len(parts) > _MAX_PARTS:
        raise ToolError("the path has too many parts")
    return parts


_OURS = ".ekiden"
_SETTINGS = "settings.json"
_SECRET = lazy_pattern(
    r"""\.env([._-].*)? | \.envrc(\..*)? | .*\.env      # settings with passwords
    |   .*\.env\.(local|enc|dev.*|test.*|stag.*|prod.*)
    |   id_(rsa|dsa|ecdsa|ed25519)(_sk)?        # keys of ssh
    |   .*\.(pem|key|ppk|p12|pfx|p8|jks|keystore|kdbx|gpg|ovpn|kubeconfig|tfvars|tfstate)
    |   [._](netrc|pgpass|npmrc|pypirc|htpasswd|git-credentials|gitconfig|hgrc|vault-token|token
            |dockercfg|dockerconfigjson|s3cfg|boto|databrickscfg|terraformrc|my\.cnf|mylogin\.cnf
            |yarnrc(\.yml)?|claude\.json)
    |   \.?mcp\.json | claude_desktop_config\.json      # servers with their tokens
    |   token\.json | kubeconfig | service[._-]?account.*\.json""",
    re.VERBOSE,
)
_SECRET_DATA = lazy_pattern(
    r"(.*[._-])?((secrets?|credentials?)([._-].*)?"
    r"|(passwords?|passwd|api[._-]?keys?)(\.[^.]+)?)"
)
"""Names of secrets, unless the file is program code or a page (`_CODE`), which is about secrets."""
_SECRET_DATA_FOLDER = lazy_pattern(r"\.?(secrets|credentials)")
_CODE = lazy_pattern(
    r".*\.(pyi?|ipynb|[cm]?[jt]sx?|vue|svelte|html?|css|go|rs|java|kt|scala|swift|rb|php|cs|[ch]"
    r"|cc|cpp|hpp|exs?|erl|hs|lua|pl|r|sh|ps1|sql|proto|graphql|tf|mdx?|rst|adoc|tex)"
)
_PUBLIC = lazy_pattern(
    r"(.*[._-])?(example|sample|template|dist)(\.(env|ya?ml|json|toml|ini|cfg|conf|properties))?"
    r"|.*\.pub"
)
"""Examples and public keys: they look like secrets and are not."""
_BACKUP = lazy_pattern(r"(?<=.)(~|\.(bak|backup|old|orig|save|swp))+\Z")
"""Endings of backup copies."""
_SECRET_FOLDERS = frozenset(
    {".ssh", ".gnupg", ".aws", ".azure", ".kube", ".docker", ".subversion", "gcloud"}
)
_SECRET_IN = {
    ".git": lazy_pattern(r"config(\.worktree)?"),
    ".hg": lazy_pattern(r"hgrc"),
    "gh": lazy_pattern(r"hosts\.ya?ml"),
    ".m2": lazy_pattern(r"settings.*\.xml"),
    ".claude": lazy_pattern(r"settings.*\.json"),
    ".gemini": lazy_pattern(r"settings.*\.json|oauth.*\.json"),
}
"""Names that are secret only inside a folder, by that folder."""
_AGENTS = "agents"
_NOT_WRITTEN = frozenset({".git", ".hg", ".svn", _OURS, ".claude", ".gemini", ".agents"})
"""Folders that control what programs and agents may do."""
_PRIVATE_KEY = re.compile(rb"-----BEGIN [A-Z0-9 ]*PRIVATE KEY( BLOCK)?-----")


def check_reading(parts: Sequence[str]) -> None:
    """Raise `ToolError` for files with credentials, and for Ekiden's own settings and stores."""
    _check_secret(parts)
    names = [_plain(part) for part in parts]
    if _OURS in names[:-1]:
        inside = names[names.index(_OURS) + 1 :]
        if inside[0] != _AGENTS and not _CODE.fullmatch(inside[-1]):
            raise _of_ekiden(parts[-1])


def check_writing(parts: Sequence[str]) -> None:
    """Raise `ToolError` for files with credentials, and for files of version control and agent
    programs."""
    for part in parts:
        if _plain(part) in _NOT_WRITTEN:
            raise ToolError(
                f"nothing is written in {part!r}: files there control what agents and programs "
                "may do, and a person has to change them"
            )
    _check_secret(parts)


def check_opened(name: str, status: os.stat_result, root: Path) -> None:
    """Raise `ToolError` if the open file is a settings file of Ekiden under another name."""
    for folder in (root, home_folder()):
        try:
            settings = None if folder is None else os.stat(folder / _OURS / _SETTINGS)
        except OSError:
            continue
        if settings is not None and os.path.samestat(status, settings):
            raise _of_ekiden(name)


def check_content(name: str, data: bytes) -> None:
    """Raise `ToolError` if the content is a private key, whatever the name of the file."""
    if _PRIVATE_KEY.search(data[:4096]):
        raise ToolError(f"{name!r} holds a private key, which is not shown to agents")


def _check_secret(parts: Sequence[str]) -> None:
    names = [_plain(part) for part in parts]
    if names and (_SECRET_FOLDERS.intersection(names) or _is_secret(names)):
        raise ToolError(
            f"{parts[-1]!r} is kept from agents, because files of this name hold passwords and keys"
        )


def _is_secret(names: Sequence[str]) -> bool:
    *folders, last = names
    name = _BACKUP.sub("", last)
    if any(name_in.fullmatch(name) for at, name_in in _SECRET_IN.items() if at in folders):
        return True
    if _PUBLIC.fullmatch(name):
        return False
    if _SECRET.fullmatch(name):
        return True
    is_data = _SECRET_DATA.fullmatch(name) or any(map(_SECRET_DATA_FOLDER.fullmatch, folders))
    return bool(is_data) and not _CODE.fullmatch(name)


def _of_ekiden(name: str) -> ToolError:
    return ToolError(
        f"{name!r} is kept from agents: it is one of Ekiden's own files, with settings, tokens or "
        "conversations"
    )


def _plain(part: str) -> str:
    """The name in a form that covers file systems which ignore case or invisible characters."""
    folded = unicodedata.normalize("NFKC", part).casefold().rstrip(". ")
    return "".join(char for char in folded if unicodedata.category(char) != "Cf")
