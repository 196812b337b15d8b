"""`list_folder`, `glob` and `grep`: names and lines of the project's text files.

Folders are walked by handles, as in `folders`, and links are not followed. Files that `read_file`
refuses are not searched.
"""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from ekiden.core.errors import ToolError
from ekiden.core.text.wording import suggestion
from ekiden.tools.builtin.files import listing, read_regular
from ekiden.tools.builtin.folders import (
    HAS_HANDLES,
    Folder,
    ResolvedPath,
    check_content,
    check_reading,
    locate,
)
from ekiden.tools.settings import FileToolSettings

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
        """List what is in a folder of the project; folders end with a slash.

        Args:
            path: From the project's folder, as in "docs"; "." is the project's folder itself.
        """
        with locate(self._root, path, by_handle=self._by_handle) as place:
            return listing(_folder(place))

    def glob(self, pattern: str, path: str = ".") -> str:
        """Find files of the project by their names.

        Args:
            pattern: As in "*.md", "src/**/*.py" or "**/test_{a,b}.py"; without a slash it is
                looked for in all folders.
            path: The folder to search, from the project's folder; "." is all of it.
        """
        matches = _name_pattern(pattern)
        with locate(self._root, path, by_handle=self._by_handle) as place:
            walk = _Walk(_folder(place))
            found = [file.name for name, file in walk.files() if matches(name)]
        return _shown(sorted(found), walk, "no file has such a name")

    def grep(
        self, pattern: str, path: str = ".", glob: str | None = None, ignore_case: bool = False
    ) -> str:
        """Find lines in text files of the project: file, number and text of each.

        Args:
            pattern: A regular expression, without look-around and back-references.
            path: The file or folder to search, from the project's folder; "." is all of it.
            glob: Only files with such names, as in "*.py"; null for all.
            ignore_case: Whether capitals do not matter.
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
                return _shown([*_lines(line_pattern, place.name, text)], None, "no line matches")
            walk, found = _Walk(_folder(place)), []
            for name, file in walk.files():
                if not matches(name):
                    continue
                text = _text(file, self._max_bytes, self._root)
                found += [] if text is None else _lines(line_pattern, file.name, text)
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


def _lines(pattern: Any, name: str, text: str) -> list[str]:
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
