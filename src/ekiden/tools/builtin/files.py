"""`read_file`, `write_file` and `edit_file`: text files of the project's folder."""

from __future__ import annotations

import os
import secrets
import stat
from contextlib import suppress
from pathlib import Path

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
            path: From the project's folder, as in "docs/notes.md".
            start_line: The first line to read; 1 is the first of the file.
            max_lines: How many lines to read; null for all.
        """
        if start_line < 1 or (max_lines is not None and max_lines < 1):
            raise ToolError("start_line and max_lines must be 1 or more")
        with locate(self._root, path, by_handle=self._by_handle) as place:
            text = self._text(place)
        return _lines(text, start_line, max_lines)

    def write_file(self, path: str, content: str) -> str:
        """Write a text file of the project, whole: what it held before is replaced.

        Args:
            path: From the project's folder, as in "docs/notes.md"; folders are made as needed.
            content: The whole text of the file.
        """
        with locate(self._root, path, by_handle=self._by_handle) as place:
            size = self._replace(place, content)
            done = "created" if place.missing else "overwritten"
            return f"{place.name}: {done}, {size:,} bytes"

    def edit_file(self, path: str, old_text: str, new_text: str, replace_all: bool = False) -> str:
        """Replace a piece of a text file of the project; the rest of it stays as it is.

        Args:
            path: From the project's folder, as in "docs/notes.md".
            old_text: The text to replace, exactly as it stands in the file, with its spaces; long
                enough to be there only once.
            new_text: The text to put in its place; empty to remove it.
            replace_all: Whether to replace it wherever it stands.
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
    """The content of a regular file. Raises `ToolError` if it is another kind of file, or too
    large, and `OSError`."""
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
    """The names in a folder."""
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
