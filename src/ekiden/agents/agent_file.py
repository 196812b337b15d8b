"""Reads one agent file, and returns its definition or its problems."""

from __future__ import annotations

import errno
import os
import re
import stat
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from unicodedata import normalize

from ekiden.agents.definition import AgentDefinition, AgentFileProblem, Origin, ProblemReport
from ekiden.agents.yaml_nodes import Mapping, Scalar
from ekiden.core.dataclass import dataclass
from ekiden.core.profile import Scope

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


_FOLDERS: dict[str, Origin] = {
    ".ekiden": "ekiden",
    ".claude": "claude",
    ".gemini": "gemini",
    ".agents": "agents",
}

_MAX_FRONT_MATTER = 64 * 1024
"""In characters."""

_FENCE = re.compile(r"^---[ \t]*$", re.MULTILINE)
_EXAMPLE = "begin the file with a line ---, then name: and other keys, then a second line ---"


@dataclass(frozen=True, slots=True)
class _Position:
    line: int
    column: int


def read_bytes(path: Path, report: ProblemReport) -> bytes | None:
    """Return the content of the file. If the file cannot be read, add the reason to the report and
    return `None`.

    This function never blocks: it refuses pipes and devices without reading them.
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


def _content(descriptor: int, report: ProblemReport) -> bytes | None:
    status = os.fstat(descriptor)
    # The path can point to another object since the first check.
    if not stat.S_ISREG(status.st_mode):
        _not_a_file(report)
        return None
    parts: list[bytes] = []
    left = MAX_FILE_BYTES + 1
    # `os.read` allocates all that it is asked for: a usual file needs a thirtieth of the maximum.
    while left > 0 and (part := os.read(descriptor, min(left, status.st_size + 1))):
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


def _decode(data: bytes, report: ProblemReport) -> str | None:
    """The text with ``\\n`` as line break and without a byte order mark; `None` if it is not
    text."""
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
            _end_of(before.replace("\r\n", "\n")),
            "not_utf8",
            f"the byte 0x{exc.object[exc.start]:02x} here is not UTF-8; save the file as UTF-8",
        )
        return None
    text = text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text
    nul = text.find("\0")
    if nul >= 0:
        report.error(
            _end_of(text[:nul]),
            "nul_character",
            "there is a NUL character here, so the file is not text; remove it",
        )
        return None
    return text


def _end_of(text: str) -> _Position:
    return _Position(text.count("\n") + 1, len(text) - text.rfind("\n"))


def _not_a_file(report: ProblemReport) -> None:
    report.error(
        None,
        "not_a_file",
        "this is not an ordinary file but a folder, pipe or device; an agent is a text file "
        "whose name ends in .md",
    )


def _unreadable(exc: OSError | ValueError, report: ProblemReport) -> None:
    number = exc.errno if isinstance(exc, OSError) else None
    reason = _REASONS.get(number or 0) or getattr(exc, "strerror", None) or str(exc)
    report.error(None, "unreadable", f"the file cannot be read: {reason}")


def _split(text: str, report: ProblemReport, origin: Origin) -> tuple[str, str] | None:
    """Front matter and instructions; `None`, with the reason in the report, if one is missing.

    The front matter is between a first line ``---`` and the next line ``---``.
    """
    if origin != "ekiden" and not text.startswith("---"):
        report.warning(
            None, "not_an_agent", "the file has no front matter, so it is not read as an agent"
        )
        return None
    if not text.strip():
        report.error(None, "empty_file", f"the file is empty; {_EXAMPLE}, then the instructions")
        return None
    opening = _FENCE.match(text)
    if opening is None:
        _report_missing(text, report)
        return None
    start = opening.end() + 1
    closing = _FENCE.search(text, start)
    if closing is None:
        report.error(
            None,
            "unclosed_front_matter",
            "the front matter that begins here has no end; write a line --- after its last key",
        )
        return None
    if closing.start() - start > _MAX_FRONT_MATTER:
        report.error(
            None,
            "too_large",
            f"the front matter is longer than {_MAX_FRONT_MATTER // 1024} KB; move long texts "
            "into the instructions below it",
        )
        return None
    return text[start : closing.start()], text[closing.end() :].strip()


def _report_missing(text: str, report: ProblemReport) -> None:
    late = _FENCE.search(text)
    if late is not None and not text[: late.start()].strip():
        report.error(
            _end_of(text[: late.start()]),
            "no_front_matter",
            "--- must be the first line; remove everything before it",
        )
        return
    report.error(None, "no_front_matter", f"the file has no front matter; {_EXAMPLE}")


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentFile:
    """The result of reading one file."""

    path: Path
    definition: AgentDefinition | None
    """The definition; `None` if the file has an error, or does not define an agent."""
    problems: tuple[AgentFileProblem, ...] = ()
    """All errors and warnings, in the order of the file."""
    partial: AgentDefinition | None = None
    """The readable part of a file with errors. Use it only to check tools and handoffs."""
    name: str | None = None
    """The agent's name, if the loader could read it. A file with errors can have a readable
    name."""


def read_agent_file(
    path: Path | str, *, origin: Origin | None = None, scope: Scope = "project"
) -> AgentFile:
    """Read one agent file. Errors in the file are returned as `problems` and never raised.

    `origin` is the tool that the file was written for; the default follows from the file's folder::

        file = read_agent_file(".ekiden/agents/debugger.md")
        print(*file.problems, sep="\\n")
    """
    path = Path(path)
    report = ProblemReport(path)
    data = read_bytes(path, report)
    text = None if data is None else _decode(data, report)
    return _read(text, report, origin or origin_of(path), scope)


def read_agent_text(
    text: str | bytes,
    *,
    path: Path | str = "agent.md",
    origin: Origin = "ekiden",
    scope: Scope = "project",
) -> AgentFile:
    """Read an agent file from a text, like `read_agent_file`. `path` appears only in the
    problems."""
    report = ProblemReport(Path(path))
    data = text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")
    return _read(_decode(data, report), report, origin, scope)


def origin_of(path: Path) -> Origin:
    """The tool that a file was written for, such as Claude Code. It follows from the folder of the
    file."""
    parts = path.absolute().parts
    for folder, inner in reversed(list(pairwise(parts))):
        if folder in _FOLDERS and inner == "agents":
            return _FOLDERS[folder]
    return "agents" if path.absolute().parent.name == ".agents" else "ekiden"


def _read(text: str | None, report: ProblemReport, origin: Origin, scope: Scope) -> AgentFile:
    # A team whose definitions are cached needs no parser.
    from ekiden.agents.front_matter import parse_front_matter
    from ekiden.agents.keys.foreign import is_key, is_safety_key, read_foreign
    from ekiden.agents.keys.table import read_own

    parts = None if text is None else _split(text, report, origin)
    root, found = None, None
    if parts is not None:
        front, body = parts
        if origin == "ekiden":
            root = parse_front_matter(front, report)
            if root is not None:
                found = read_own(root, body, report, scope)
        else:
            root = parse_front_matter(front, report, is_key=is_key, is_strict=is_safety_key)
            if root is not None:
                found = read_foreign(root, body, report, origin, scope)
        if not body and found is not None and found.a2a is None:
            report.warning(
                None,
                "no_instructions",
                "there are no instructions below the front matter; add some",
            )
    problems = report.problems
    if origin != "ekiden" and parts is None:
        problems = [replace(each, severity="warning") for each in problems]
    return AgentFile(
        path=report.path,
        definition=None if report.failed else found,
        problems=tuple(sorted(problems)),
        partial=found if report.failed else None,
        name=found.name if found and found.name else _name(root),
    )


def _name(root: Mapping | None) -> str | None:
    for key, value in root.entries if root else ():
        if key.text == "name" and isinstance(value, Scalar) and value.text.strip():
            return normalize("NFC", value.text.strip())
    return None
