"""Reads one agent file into a definition, or into the list of its faults."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from unicodedata import normalize

from ekiden.agents.definition import AgentDefinition, Origin, Problem
from ekiden.agents.front_matter import Spot, decode, read_bytes
from ekiden.agents.keys.foreign import is_key, is_safety_key, read_foreign
from ekiden.agents.keys.own import read_own
from ekiden.agents.report import Report
from ekiden.agents.yaml.literal import parse_front_matter
from ekiden.agents.yaml.nodes import Mapping, Scalar
from ekiden.core.profile import Scope

_FOLDERS: dict[str, Origin] = {
    ".ekiden": "ekiden",
    ".claude": "claude",
    ".gemini": "gemini",
    ".agents": "agents",
}

MAX_FRONT_MATTER = 64 * 1024
"""Characters."""

_FENCE = re.compile(r"^---[ \t]*$", re.MULTILINE)
_EXAMPLE = "begin the file with a line ---, then name: and other keys, then a second line ---"


@dataclass(frozen=True, slots=True)
class FileParts:
    """A file in two."""

    front: str
    """What is between the two lines ``---``; its first line is the file's second."""
    body: str
    """The instructions, without blank lines around them."""


def split(text: str, report: Report) -> FileParts | None:
    """Front matter and instructions; `None`, with the reason in the report, if there are not two.

    The front matter is between a first line ``---`` and the next line ``---``.
    """
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
    if closing.start() - start > MAX_FRONT_MATTER:
        report.error(
            None,
            "too_large",
            f"the front matter is longer than {MAX_FRONT_MATTER // 1024} KB; move long texts "
            "into the instructions below it",
        )
        return None
    return FileParts(text[start : closing.start()], text[closing.end() :].strip())


def _report_missing(text: str, report: Report) -> None:
    late = _FENCE.search(text)
    if late is not None and not text[: late.start()].strip():
        line = text.count("\n", 0, late.start()) + 1
        report.error(
            Spot(line, 1),
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
    """`None` if the file has an error, or is no agent."""
    problems: tuple[Problem, ...] = ()
    """All of them, warnings too, in the order of the file."""
    partial: AgentDefinition | None = None
    """Of a file that has an error, what could be read: only to check tools and handoffs with."""
    name: str | None = None
    """The agent's name, if it could be read although the file has errors."""


def read_agent_file(
    path: Path | str, *, origin: Origin | None = None, scope: Scope = "project"
) -> AgentFile:
    """Read one file; all its errors are reported as problems, never raised.

    `origin` is the tool that the file was written for; by default it follows from the folder::

        file = read_agent_file(".ekiden/agents/debugger.md")
        print(*file.problems, sep="\\n")
    """
    path = Path(path)
    report = Report(path)
    data = read_bytes(path, report)
    text = None if data is None else decode(data, report)
    return _read(text, report, origin or origin_of(path), scope)


def read_agent_text(
    text: str | bytes,
    *,
    path: Path | str = "agent.md",
    origin: Origin = "ekiden",
    scope: Scope = "project",
) -> AgentFile:
    """Like `read_agent_file`, for a text; `path` is only used in problems."""
    report = Report(Path(path))
    data = text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")
    return _read(decode(data, report), report, origin, scope)


def origin_of(path: Path) -> Origin:
    """The tool that a file was written for, from its folders."""
    parts = path.absolute().parts
    for folder, inner in reversed(list(pairwise(parts))):
        if folder in _FOLDERS and inner == "agents":
            return _FOLDERS[folder]
    return "agents" if path.absolute().parent.name == ".agents" else "ekiden"


def _read(text: str | None, report: Report, origin: Origin, scope: Scope) -> AgentFile:
    parts = None if text is None else _split(text, report, origin)
    root, found = None, None
    if parts is not None:
        if origin == "ekiden":
            root = parse_front_matter(parts.front, report)
        else:
            root = parse_front_matter(parts.front, report, is_key=is_key, is_strict=is_safety_key)
    if parts is not None and root is not None:
        if origin == "ekiden":
            found = read_own(root, parts.body, report, scope)
        else:
            found = read_foreign(root, parts.body, report, origin, scope)
        if not parts.body and found is not None and found.a2a is None:
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


def _split(text: str, report: Report, origin: Origin) -> FileParts | None:
    if origin != "ekiden" and not text.startswith("---"):
        report.warning(
            None, "not_an_agent", "the file has no front matter, so it is not read as an agent"
        )
        return None
    return split(text, report)


def _name(root: Mapping | None) -> str | None:
    """The name of a file that has errors."""
    for key, value in root.entries if root else ():
        if key.text == "name" and isinstance(value, Scalar) and value.text.strip():
            return normalize("NFC", value.text.strip())
    return None
