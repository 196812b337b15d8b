"""Reading a file's text, and finding the front matter in it."""

from __future__ import annotations

import errno
import os
import stat
from dataclasses import dataclass
from pathlib import Path

from ekiden.agents.report import Report

MAX_FILE_BYTES = 256 * 1024

_FLAGS = (
    os.O_RDONLY
    | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_NOCTTY", 0)
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_BINARY", 0)
)
_REASONS = {
    errno.ENOENT: "there is no such file; a link may be broken",
    errno.EACCES: "it may not be read: give yourself the right to, as with chmod u+r",
    errno.EPERM: "it may not be read: give yourself the right to, as with chmod u+r",
    errno.ELOOP: "it is a link that leads back to itself: remove it",
    errno.ENAMETOOLONG: "its name is too long",
    errno.EISDIR: "it is a folder",
}


@dataclass(frozen=True, slots=True)
class Spot:
    """A place in a file."""

    line: int
    column: int


def read_bytes(path: Path, report: Report) -> bytes | None:
    """The content of the file; `None`, with the reason in the report, when it cannot be had.

    Never waits: a pipe or a device is refused before anything is read from it.
    """
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            _not_a_file(report)
            return None
        descriptor = os.open(path, _FLAGS)
    except (OSError, ValueError) as exc:
        _unreadable(exc, report)
        return None
    try:
        return _content(descriptor, report)
    except OSError as exc:
        _unreadable(exc, report)
        return None
    finally:
        os.close(descriptor)


def _content(descriptor: int, report: Report) -> bytes | None:
    # What was a file a moment ago may be something else by now.
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        _not_a_file(report)
        return None
    parts: list[bytes] = []
    left = MAX_FILE_BYTES + 1
    while left > 0 and (part := os.read(descriptor, left)):
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


def decode(data: bytes, report: Report) -> str | None:
    """The text, with ``\\n`` between lines and without a byte order mark; `None` if it is none."""
    if len(data) > MAX_FILE_BYTES:
        report.error(
            None,
            "too_large",
            f"the file is larger than {MAX_FILE_BYTES // 1024} KB; shorten it: instructions of "
            "that length do not fit into a model's window",
        )
        return None
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        report.error(None, "not_utf8", "the file is UTF-16; save it as UTF-8")
        return None
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as exc:
        before = exc.object[: exc.start].decode("utf-8", "replace")
        report.error(
            spot(before.replace("\r\n", "\n"), None),
            "not_utf8",
            f"the byte 0x{exc.object[exc.start]:02x} here is not UTF-8; save the file as UTF-8",
        )
        return None
    text = text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text
    nul = text.find("\0")
    if nul >= 0:
        report.error(
            spot(text, nul),
            "nul_character",
            "there is a NUL character here, so the file is not text; remove it",
        )
        return None
    return text


def spot(text: str, index: int | None) -> Spot:
    """Line and column of `index`, or of the end of the text."""
    before = text if index is None else text[:index]
    return Spot(before.count("\n") + 1, len(before) - before.rfind("\n"))


def _not_a_file(report: Report) -> None:
    report.error(
        None,
        "not_a_file",
        "this is not an ordinary file but a folder, pipe or device; an agent is a text file "
        "whose name ends in .md",
    )


def _unreadable(exc: OSError | ValueError, report: Report) -> None:
    number = exc.errno if isinstance(exc, OSError) else None
    reason = _REASONS.get(number or 0) or getattr(exc, "strerror", None) or str(exc)
    report.error(None, "unreadable", f"the file cannot be read: {reason}")
