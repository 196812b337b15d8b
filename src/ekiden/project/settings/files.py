"""Settings files: their paths, their checked values and problems, locks and safe replacement."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import sys
import time
from collections.abc import Iterator
from dataclasses import field
from pathlib import Path
from typing import Any, Literal, TypeAlias

from ekiden.core.checks.kinds import Kind, shown_type
from ekiden.core.dataclass import dataclass
from ekiden.core.home import home_folder
from ekiden.core.text.wording import did_you_mean
from ekiden.project.settings.jsonc import (
    JsoncDocument,
    JsoncError,
    JsoncMember,
    JsoncNode,
    ObjectNode,
    parse,
)
from ekiden.project.settings.keys import ROOT, SETTINGS, Group, ServerEntry, Setting
from ekiden.project.settings.model import SERVERS, server_name_problem

ProblemCode: TypeAlias = Literal[
    "settings.unreadable",
    "settings.syntax",
    "settings.duplicate_key",
    "settings.unknown_key",
    "settings.wrong_value",
    "settings.conflict",
]
MAX_BYTES = 1_000_000
_FOLDER = ".ekiden"
_FILE = "settings.json"
_OTHER_MARKS = (b"\xff\xfe", b"\xfe\xff")
"""Byte order marks of UTF-16 and UTF-32."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingsProblem:
    """An error in the settings."""

    where: str | None = None
    """The source of the error: a file, an environment variable, or ``the call``. `None` for an
    error in a new value."""
    line: int | None = None
    """The line in the file. 1 is the first line."""
    column: int | None = None
    """The column in the line, in characters. 1 is the first column."""
    code: ProblemCode
    message: str
    """The error, and a suggestion for the correct text."""

    def __str__(self) -> str:
        if self.where is None:
            return self.message
        place = [str(part) for part in (self.where, self.line, self.column) if part is not None]
        return f"{':'.join(place)}: {self.message}"

    def to_json(self) -> dict[str, Any]:
        """The problem as JSON."""
        return {
            "where": self.where,
            "line": self.line,
            "column": self.column,
            "code": self.code,
            "message": self.message,
        }


Where: TypeAlias = Literal["project", "user"]
"""Which file is meant: the settings file of the project, or of the user."""


class Unreadable(Exception):
    """A file exists, but its text cannot be read."""

    def __init__(self, problem: SettingsProblem) -> None:
        super().__init__(str(problem))
        self.problem = problem


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingsFiles:
    """The two settings files."""

    project: Path
    user: Path | None
    """The user's settings file; `None` if the home folder is unknown."""

    def path(self, where: Where) -> Path | None:
        """The file of the project or of the user."""
        return self.project if where == "project" else self.user

    @property
    def are_one(self) -> bool:
        """Whether both files are the same, because the project is in the home folder."""
        return self.user is not None and os.path.realpath(self.project) == os.path.realpath(
            self.user
        )


def settings_files(root: Path | None = None, home: Path | None = None) -> SettingsFiles:
    """The settings files of the project in `root` (default: the current folder), and of the user
    with the home folder `home`."""
    home = home_folder() if home is None else home
    return SettingsFiles(
        project=(root or Path()) / _FOLDER / _FILE,
        user=None if home is None else home / _FOLDER / _FILE,
    )


def read_text(path: Path) -> str | None:
    """The text of a settings file; `None` if there is no file. Raises `Unreadable` if the text
    cannot be read."""
    try:
        data = _read_bytes(path)
    except FileNotFoundError:
        return None
    except OSError as exc:
        raise _unreadable(path, f"cannot be read: {exc.strerror}") from exc
    if len(data) > MAX_BYTES:
        raise _unreadable(path, f"is larger than {MAX_BYTES:,} bytes; settings are not that long")
    if data.startswith(_OTHER_MARKS):
        raise _unreadable(path, "is UTF-16 or UTF-32; save it as UTF-8")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as exc:
        before = data[: exc.start]
        line = before.count(b"\n") + 1
        last = before.rpartition(b"\n")[2].decode("utf-8")
        raise _unreadable(
            path, "is not UTF-8 here; save it as UTF-8", line=line, column=len(last) + 1
        ) from exc


def _read_bytes(path: Path) -> bytes:
    # Non-blocking: opening a pipe without a writer would wait for ever.
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise _unreadable(path, "is not a file; move it away")
        with open(descriptor, "rb", closefd=False) as file:
            return file.read(MAX_BYTES + 1)
    finally:
        os.close(descriptor)


def _unreadable(
    path: Path, message: str, *, line: int | None = None, column: int | None = None
) -> Unreadable:
    return Unreadable(
        SettingsProblem(
            where=str(path), line=line, column=column, code="settings.unreadable", message=message
        )
    )


_NEW_MODE = 0o600
"""Settings may hold secrets of MCP servers."""
_PAUSE_S = 0.01
_BUSY = (errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES, errno.EDEADLK)


def replace_file(path: Path, data: bytes) -> None:
    """Write `data` to `path` atomically and durably. `path` must not be a symbolic link.

    An existing file keeps its mode and, if the system allows it, its owner. The caller must hold
    the lock. After an `OSError` the file is unchanged.
    """
    # The name is fixed, so that the next writer removes what a killed writer left behind.
    fresh = path.with_name(f".{path.name}.new")
    fresh.unlink(missing_ok=True)
    try:
        _write(fresh, data, like=path)
        os.replace(fresh, path)
    except BaseException:
        fresh.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Write the names in `folder` to disk, if the system supports it."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _write(fresh: Path, data: bytes, *, like: Path) -> None:
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _NEW_MODE)
    with open(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        _take_over(fresh, like)
        os.fsync(descriptor)


def _take_over(fresh: Path, like: Path) -> None:
    try:
        old = like.stat()
    except FileNotFoundError:
        return
    with contextlib.suppress(OSError, AttributeError):
        os.chown(fresh, old.st_uid, old.st_gid)
    os.chmod(fresh, stat.S_IMODE(old.st_mode))


if sys.platform == "win32":
    import msvcrt

    def _try_lock(descriptor: int) -> None:
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)

else:
    import fcntl

    def _try_lock(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


@contextlib.contextmanager
def locked(path: Path, *, timeout_s: float) -> Iterator[None]:
    """Hold the lock of `path` against other callers, in this process and in others.

    The lock is on a file beside `path`, because `path` itself is replaced. The system releases the
    lock when the process that holds it dies. Raises `TimeoutError` after `timeout_s` seconds, and
    `OSError` if the lock file cannot be created.
    """
    lock = path.with_name(f".{path.name}.lock")
    deadline = time.monotonic() + timeout_s
    descriptor = _hold(lock, deadline)
    try:
        yield
    finally:
        # The file is removed while it is locked. A waiting caller that then gets the lock sees that
        # the file is gone, and creates a new one (see `_hold`).
        with contextlib.suppress(OSError):
            lock.unlink()
        os.close(descriptor)


def _hold(lock: Path, deadline: float) -> int:
    while True:
        descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600)
        try:
            _wait(descriptor, deadline)
            if _is_current(descriptor, lock):
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def _wait(descriptor: int, deadline: float) -> None:
    while True:
        try:
            _try_lock(descriptor)
        except OSError as exc:
            if exc.errno not in _BUSY:
                raise
        else:
            return
        if time.monotonic() >= deadline:
            raise TimeoutError
        time.sleep(_PAUSE_S)


def _is_current(descriptor: int, lock: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(lock))
    except FileNotFoundError:
        return False


MAX_PROBLEMS = 100
"""The maximum number of problems reported for one file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundValue:
    """A value in a file."""

    value: object
    line: int
    column: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """The values and problems of a file."""

    values: dict[str, FoundValue]
    """The values, by the name of the setting. Each MCP server has its own name."""
    problems: list[SettingsProblem]
    """At most `MAX_PROBLEMS` problems."""


def read_content(text: str, *, where: str) -> Content:
    """Read the values and the problems in `text`, the content of the file `where`."""
    try:
        document = parse(text)
    except JsoncError as exc:
        line, column = _position(text, exc.offset)
        problem = SettingsProblem(
            where=where, line=line, column=column, code="settings.syntax", message=str(exc)
        )
        return Content(values={}, problems=[problem])
    reader = _Reader(document=document, where=where)
    reader.read()
    return Content(values=reader.values, problems=sorted(reader.problems, key=_by_place))


@dataclass(slots=True, kw_only=True)
class _Reader:
    document: JsoncDocument
    where: str
    values: dict[str, FoundValue] = field(default_factory=dict)
    problems: list[SettingsProblem] = field(default_factory=list)

    def read(self) -> None:
        for member in self.document.duplicates[:MAX_PROBLEMS]:
            message = f"the key {member.key!r} appears earlier in this object; remove one"
            self._complain(member.start, "settings.duplicate_key", message)
        if self.document.root is not None:
            self._group(ROOT, self.document.root)

    def _group(self, group: Group, node: JsoncNode) -> None:
        if not isinstance(node, ObjectNode):
            name = group.name or "a settings file"
            message = f"{name} must be an object, not {shown_type(node.value)}"
            self._complain(node.start, "settings.wrong_value", message)
            return
        spelled: dict[str, str] = {}
        for member in node.members:
            if len(self.problems) >= MAX_PROBLEMS:
                return
            if group is ROOT and member.key == "$schema":
                continue  # For editors.
            child = group.child(member.key)
            if child is None:
                self._complain(member.start, "settings.unknown_key", _unknown(group, member.key))
                continue
            if spelled.setdefault(child.name, member.key) != member.key:
                self._complain(
                    member.start,
                    "settings.duplicate_key",
                    f"{member.key!r} and {spelled[child.name]!r} are the same setting; remove one",
                )
            if isinstance(child, Group):
                self._group(child, member.node)
            elif child.name == SERVERS:
                self._servers(child, member.node)
            else:
                self._value(child.name, child.kind, member)

    def _servers(self, setting: Setting, node: JsoncNode) -> None:
        if not isinstance(node, ObjectNode):
            message = f"{SERVERS} must be an object of servers, not {shown_type(node.value)}"
            self._complain(node.start, "settings.wrong_value", message)
            return
        for member in node.members:
            if len(self.problems) >= MAX_PROBLEMS:
                return
            fault = server_name_problem(member.key)
            if fault is not None:
                self._complain(member.start, "settings.wrong_value", fault)
                continue
            entry = ServerEntry(setting=setting, server=member.key)
            self._value(entry.name, entry.kind, member)

    def _value(self, name: str, kind: Kind, member: JsoncMember) -> None:
        try:
            value = kind.read(member.node.value)
        except ValueError as exc:
            self._complain(member.node.start, "settings.wrong_value", f"{name} {exc}")
            return
        line, column = self.document.position(member.start)
        self.values[name] = FoundValue(value=value, line=line, column=column)

    def _complain(self, offset: int, code: ProblemCode, message: str) -> None:
        line, column = self.document.position(offset)
        self.problems.append(
            SettingsProblem(where=self.where, line=line, column=column, code=code, message=message)
        )


def _unknown(group: Group, key: str) -> str:
    """The message for an unknown key: a similar key, or the place where it belongs."""
    place = f"{group.name} has" if group.name else "there is"
    near = did_you_mean(key, group.children)
    if near is not None:
        return f"{place} no setting {key!r}; did you mean {near!r}?"
    elsewhere = _elsewhere(key)
    if elsewhere is not None:
        return f"{place} no setting {key!r} here; it is {elsewhere}, in nested objects"
    return f"{place} no setting {key!r}; known here: {', '.join(group.children)}"


def _elsewhere(key: str) -> str | None:
    names = [setting.name for setting in SETTINGS]
    groups = [name.rpartition(".")[0] for name in names]
    return next((name for name in (*names, *groups) if f".{name}".endswith(f".{key}")), None)


def _position(text: str, offset: int) -> tuple[int, int]:
    return JsoncDocument(text=text, root=None, duplicates=()).position(offset)


def _by_place(problem: SettingsProblem) -> tuple[int, int]:
    return problem.line or 0, problem.column or 0
