"""The built-in tools for text files of the project: read, write, edit, list and search.

Searches open folders relative to their parent folders, as in `folders`, and do not follow links.
They skip files that `read_file` refuses.
"""

from __future__ import annotations

import os
import re
import secrets
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from ekiden.core.errors import ToolError
from ekiden.core.text.wording import suggestion
from ekiden.tools.builtin.folders import (
    HAS_HANDLES,
    Folder,
    ResolvedPath,
    check_content,
    check_opened,
    check_reading,
    check_writing,
    locate,
)
from ekiden.tools.settings import FileToolSettings

_LISTED = 100


class ProjectFiles:
    """The text files under `root`, within the limits of `settings`."""

    def __init__(
        self, root: Path, settings: FileToolSettings, *, by_handle: bool = HAS_HANDLES
    ) -> None:
        self._root = root
        self._max_bytes = settings.max_bytes
        self._by_handle = by_handle

    def read_file(self, path: str, start_line: int = 1, max_lines: int | None = None) -> str:
        """Read a text file of the project.

        Args:
            path: Relative to the project's folder, as in "docs/notes.md".
            start_line: The number of the first line to read, from 1.
            max_lines: The number of lines to read; null for all.
        """
        if start_line < 1 or (max_lines is not None and max_lines < 1):
            raise ToolError("start_line and max_lines must be 1 or more")
        with locate(self._root, path, by_handle=self._by_handle) as place:
            text = self._text(place)
        return _lines(text, start_line, max_lines)

    def write_file(self, path: str, content: str) -> str:
        """Write a whole text file of the project. The old content is replaced.

        Args:
            path: Relative to the project's folder, as in "docs/notes.md". Missing folders are
                created.
            content: The whole text of the file.
        """
        with locate(self._root, path, by_handle=self._by_handle) as place:
            size = self._replace(place, content)
            done = "created" if place.missing else "overwritten"
            return f"{place.name}: {done}, {size:,} bytes"

    def edit_file(self, path: str, old_text: str, new_text: str, replace_all: bool = False) -> str:
        """Replace a part of a text file of the project. The rest of the file does not change.

        Args:
            path: Relative to the project's folder, as in "docs/notes.md".
            old_text: The exact text to replace, with its spaces. Without replace_all, the text must
                occur only once in the file.
            new_text: The new text; empty to remove the old text.
            replace_all: Whether to replace every occurrence of the old text.
        """
        if not old_text:
            raise ToolError("old_text is empty: give the text to replace, or use write_file")
        with locate(self._root, path, by_handle=self._by_handle) as place:
            text = self._text(place, keep_mark=True)
            if old_text not in text and "\r\n" in text:
                old_text, new_text = _with_returns(old_text), _with_returns(new_text)
            count = text.count(old_text)
            if count == 0:
                raise ToolError(f"old_text is not in {place.name!r}: read the file again")
            if count > 1 and not replace_all:
                raise ToolError(
                    f"old_text is in {place.name!r} {count} times: give more of the text around "
                    "it, or set replace_all"
                )
            self._replace(place, text.replace(old_text, new_text))
            return f"{place.name}: replaced {count} {'time' if count == 1 else 'times'}"

    def _replace(self, place: ResolvedPath, content: str) -> int:
        try:
            data = content.encode()
        except UnicodeEncodeError as exc:
            raise ToolError("the content has half characters (lone surrogates) in it") from exc
        if len(data) > self._max_bytes:
            raise ToolError(_too_large("the content", len(data), self._max_bytes))
        if place.is_folder:
            raise ToolError(f"{place.name!r} is a folder")
        for parts in (*place.links, place.parts):
            check_writing(parts)
        try:
            _write(place, data)
        except OSError as exc:
            raise ToolError(f"{place.name!r} was not written: {exc.strerror or exc}") from exc
        return len(data)

    def _text(self, place: ResolvedPath, *, keep_mark: bool = False) -> str:
        if place.is_folder:
            raise ToolError(f"{place.name!r} is a folder, with {listing(place)}")
        if place.missing:
            near = suggestion(place.missing[0], place.folder.names())
            raise ToolError(f"there is no file {place.name!r}{near}")
        for parts in (*place.links, place.parts):
            check_reading(parts)
        try:
            data = read_regular(place, self._max_bytes, self._root)
        except OSError as exc:
            raise ToolError(f"{place.name!r} cannot be read: {exc.strerror or exc}") from exc
        check_content(place.name, data)
        try:
            text = data.decode("utf-8" if keep_mark else "utf-8-sig")
        except UnicodeDecodeError as exc:
            raise ToolError(f"{place.name!r} is not text in UTF-8") from exc
        if "\0" in text:
            raise ToolError(f"{place.name!r} is not text: it has zero bytes in it")
        return text


def read_regular(place: ResolvedPath, max_bytes: int, root: Path) -> bytes:
    """The content of a regular file. Raises `ToolError` for another kind of file and for a file
    that is too large, and `OSError` if the file cannot be read."""
    name = place.parts[-1]
    _check_regular(place, place.folder.stat(name))
    with open(place.folder.open(name, os.O_RDONLY), "rb") as file:
        status = os.fstat(file.fileno())
        _check_regular(place, status)
        check_opened(name, status, root)
        data = file.read(max_bytes + 1)
    if len(data) > max_bytes:
        raise ToolError(_too_large(place.name, max(status.st_size, len(data)), max_bytes))
    return data


def _write(place: ResolvedPath, data: bytes) -> None:
    name, folder = place.parts[-1], place.folder
    mode: int | None = None
    if not place.missing:
        status = folder.stat(name)
        _check_regular(place, status)
        mode = stat.S_IMODE(status.st_mode) & 0o777
        if not mode & 0o222:
            raise ToolError(f"{place.name!r} is write-protected")
    made: list[Folder] = []
    try:
        for part in place.missing[:-1]:
            folder.make(part)
            folder = folder.enter(part)
            made.append(folder)
        _put(folder, name, data, mode)
    finally:
        for each in made:
            each.close()


def _put(folder: Folder, name: str, data: bytes, mode: int | None) -> None:
    """Replace the file in one step: a draft is made durable and then renamed."""
    draft = f".ekiden-{secrets.token_hex(8)}.tmp"
    descriptor = folder.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    try:
        with open(descriptor, "wb") as file:
            file.write(data)
            if mode is not None and hasattr(os, "fchmod"):
                os.fchmod(file.fileno(), mode)
            file.flush()
            os.fsync(file.fileno())
        folder.replace(draft, name)
    except BaseException:
        with suppress(OSError):
            folder.remove(draft)
        raise
    folder.sync()


def _check_regular(place: ResolvedPath, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise ToolError(f"{place.name!r} is not a regular file but a device, pipe or socket")


def listing(place: ResolvedPath) -> str:
    """The names of the entries in a folder."""
    names = place.folder.names()
    listed = ", ".join(names[:_LISTED]) or "nothing"
    return f"{listed} and {len(names) - _LISTED} more" if len(names) > _LISTED else listed


def _with_returns(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\n", "\r\n")


def _lines(text: str, start: int, most: int | None) -> str:
    if start == 1 and most is None:
        return text
    lines = text.split("\n")
    total = len(lines) - (lines[-1] == "")
    if start > max(total, 1):
        raise ToolError(f"the file has {total} lines, and none at {start}")
    chosen = lines[start - 1 :] if most is None else lines[start - 1 : start - 1 + most]
    last = min(start - 1 + len(chosen), total)
    shown = "\n".join(chosen)
    if last >= total:
        return shown
    return f"{shown}\n[lines {start} to {last} of {total}; go on with start_line {last + 1}]"


def _too_large(what: str, size: int, most: int) -> str:
    return f"{what} has {size:,} bytes, more than tools.files.max_bytes allows ({most:,})"


_SKIPPED = frozenset({".git", ".hg", ".svn", ".venv", "node_modules", "__pycache__"})
"""Folders that are searched only if the path names them."""
_MAX_DEPTH = 40
_MAX_FILES = 50_000
_MAX_SECONDS = 20.0
_MAX_FOUND = 200
_MAX_LINE = 300
_MAX_PATTERN = 500
_MAX_MEMORY = 8 * 1024 * 1024


class FileSearch:
    """Finds files under `root` by name, and lines in files."""

    def __init__(
        self, root: Path, settings: FileToolSettings, *, by_handle: bool = HAS_HANDLES
    ) -> None:
        self._root = root
        self._max_bytes = settings.max_bytes
        self._by_handle = by_handle

    def list_folder(self, path: str = ".") -> str:
        """List the entries of a folder of the project. Names of folders end with a slash.

        Args:
            path: Relative to the project's folder, as in "docs"; "." is the project's folder.
        """
        with locate(self._root, path, by_handle=self._by_handle) as place:
            return listing(_folder(place))

    def glob(self, pattern: str, path: str = ".") -> str:
        """Find files of the project by their names.

        Args:
            pattern: As in "*.md", "src/**/*.py" or "**/test_{a,b}.py". A pattern without a
                slash applies to all folders.
            path: The folder to search, relative to the project's folder; "." searches all of it.
        """
        matches = _name_pattern(pattern)
        with locate(self._root, path, by_handle=self._by_handle) as place:
            walk = _Walk(_folder(place))
            found = [file.name for name, file in walk.files() if matches(name)]
        return _shown(sorted(found), walk, "no file has such a name")

    def grep(
        self, pattern: str, path: str = ".", glob: str | None = None, ignore_case: bool = False
    ) -> str:
        """Find lines in text files of the project. Shows the file, number and text of each line.

        Args:
            pattern: A regular expression, without look-around and back-references.
            path: The file or folder to search, relative to the project's folder; "." searches all.
            glob: Only files whose names match, as in "*.py"; null for all.
            ignore_case: Whether to ignore case.
        """
        _check_length(pattern)
        line_pattern = _compiled(pattern, ignore_case=ignore_case)
        matches = _name_pattern(glob) if glob else lambda name: True
        with locate(self._root, path, by_handle=self._by_handle) as place:
            if not place.is_folder and not place.missing:
                for parts in (*place.links, place.parts):
                    check_reading(parts)
                text = _text(place, self._max_bytes, self._root)
                if text is None:
                    raise ToolError(f"{place.name!r} is not text in UTF-8, or too large")
                return _shown(
                    [*_matches_in(line_pattern, place.name, text)], None, "no line matches"
                )
            walk, found = _Walk(_folder(place)), []
            for name, file in walk.files():
                if not matches(name):
                    continue
                text = _text(file, self._max_bytes, self._root)
                found += [] if text is None else _matches_in(line_pattern, file.name, text)
                if len(found) > _MAX_FOUND:
                    break
        return _shown(found, walk, "no line matches")


class _Walk:
    """The files below a folder that agents may read, each with its path from the folder."""

    def __init__(self, start: ResolvedPath) -> None:
        self._start = start
        self._seen = 0
        self._ends = time.monotonic() + _MAX_SECONDS
        self.is_cut = False

    def files(self) -> Iterator[tuple[str, ResolvedPath]]:
        if all(_may_read((*parts, "x")) for parts in (*self._start.links, self._start.parts)):
            yield from self._in(self._start.folder, self._start.parts, "", 0)

    def _in(
        self, folder: Folder, parts: tuple[str, ...], before: str, depth: int
    ) -> Iterator[tuple[str, ResolvedPath]]:
        try:
            names = folder.names()
        except OSError:
            return
        for name in names:
            self._seen += 1
            if self._seen > _MAX_FILES or time.monotonic() > self._ends:
                self.is_cut = True
                return
            is_folder, name = name.endswith("/"), name.rstrip("/")
            here = (*parts, name)
            if not is_folder:
                if _may_read(here):
                    yield f"{before}{name}", ResolvedPath(folder=folder, parts=here)
            elif name not in _SKIPPED and depth < _MAX_DEPTH:
                try:
                    inner = folder.enter(name)
                except OSError:
                    continue
                try:
                    yield from self._in(inner, here, f"{before}{name}/", depth + 1)
                finally:
                    inner.close()


def _folder(place: ResolvedPath) -> ResolvedPath:
    if place.missing:
        near = suggestion(place.missing[0], place.folder.names())
        raise ToolError(f"there is no folder {place.name!r}{near}")
    if not place.is_folder:
        raise ToolError(f"{place.name!r} is a file, not a folder")
    return place


def _may_read(parts: tuple[str, ...]) -> bool:
    try:
        check_reading(parts)
    except ToolError:
        return False
    return True


def _text(file: ResolvedPath, max_bytes: int, root: Path) -> str | None:
    """The text of a file; `None` if it is not text, too large, a link or secret."""
    try:
        if not stat.S_ISREG(file.folder.stat(file.parts[-1]).st_mode):
            return None
        data = read_regular(file, max_bytes, root)
        check_content(file.name, data)
        text = data.decode("utf-8-sig")
    except (OSError, ToolError, UnicodeDecodeError):
        return None
    return None if "\0" in text else text


def _matches_in(pattern: Any, name: str, text: str) -> list[str]:
    if not pattern.search(text):
        return []
    found: list[str] = []
    for number, line in enumerate(text.split("\n"), 1):
        if pattern.search(line):
            line = line.strip()
            line = line if len(line) <= _MAX_LINE else f"{line[:_MAX_LINE]}…"
            found.append(f"{name}:{number}: {line}")
            if len(found) > _MAX_FOUND:
                break
    return found


def _shown(found: list[str], walk: _Walk | None, none: str) -> str:
    lines = found[:_MAX_FOUND]
    if len(found) > _MAX_FOUND:
        lines.append(f"[more than {_MAX_FOUND}; ask for less]")
    if walk is not None and walk.is_cut:
        lines.append("[not everything was searched: name a smaller folder]")
    return "\n".join(lines) or none


def _check_length(pattern: str) -> None:
    if not pattern or len(pattern) > _MAX_PATTERN:
        raise ToolError(f"a pattern has 1 to {_MAX_PATTERN} characters")


def _compiled(pattern: str, *, ignore_case: bool = False) -> Any:
    """Compile with RE2: its time is linear in the text for every pattern."""
    import re2

    options = re2.Options()
    options.case_sensitive = not ignore_case
    options.log_errors = False
    options.never_capture = True
    options.max_mem = _MAX_MEMORY
    try:
        return re2.compile(f"(?m){pattern}", options)
    except re2.error as exc:
        raise ToolError(
            f"the pattern {pattern[:100]!r} cannot be used ({str(exc)[:100]}): it is a regular "
            "expression without look-around and back-references; write \\ before ( [ * + ? ."
        ) from exc


def _name_pattern(pattern: str) -> Callable[[str], bool]:
    """A function that tells whether a path from the searched folder matches the pattern."""
    _check_length(pattern)
    pattern = pattern.replace(os.sep, "/").removeprefix("./")
    full_pattern = pattern if "/" in pattern else f"**/{pattern}"
    compiled = _compiled(rf"\A{_translated(full_pattern)}\z")
    return lambda name: bool(compiled.search(name))


_PARTS = re.compile(
    r"(?P<folders>\*\*/)|(?P<rest>\*\*)|(?P<star>\*)|(?P<one>\?)|(?P<set>\[[!^]?[^\[\]/]+\])"
    r"|\{(?P<either>[^{}/]*)\}|(?P<plain>.)",
    re.DOTALL,
)
_IN_SET = re.compile(r"[\\^]")
_MEANS = {"folders": "(?:[^/]+/)*", "rest": ".*", "star": "[^/]*", "one": "[^/]"}


def _translated(pattern: str) -> str:
    made: list[str] = []
    for part in _PARTS.finditer(pattern):
        kind, text = part.lastgroup or "plain", part[0]
        if kind in _MEANS:
            made.append(_MEANS[kind])
        elif kind == "set":
            inside = text[1:-1]
            sign = "^" if inside[0] in "!^" else ""
            letters = _IN_SET.sub(r"\\\g<0>", inside[len(sign) :])
            made.append(f"[{sign}{letters}]")
        elif kind == "either":
            made.append(f"(?:{'|'.join(map(_translated, part['either'].split(',')))})")
        else:
            made.append(re.escape(text))
    return "".join(made)
