"""Checking agent files: those of the project, or any others."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ekiden.agents import AgentDefinition, Problem, load_agent_files, read_agent_file
from ekiden.cli.errors import UsageError
from ekiden.cli.projects import relative
from ekiden.core.errors import AgentFilesInvalid


@dataclass(frozen=True, slots=True, kw_only=True)
class Validation:
    """What is wrong with some files."""

    files: int
    """How many were looked at."""
    problems: Sequence[Problem]
    """Sorted by file, line and column."""

    def fails(self, *, strict: bool) -> bool:
        """Whether something has to be changed."""
        return any(strict or problem.severity == "error" for problem in self.problems)

    def to_json(self) -> dict[str, Any]:
        """As `ekiden agents validate --json` prints it."""
        return {
            "ok": not self.fails(strict=False),
            "files": self.files,
            "errors": self._count("error"),
            "warnings": self._count("warning"),
            "problems": [problem.to_json() for problem in self.problems],
        }

    def to_text(self) -> str:
        """A line for every problem, a gap between files, and at the end how many there are."""
        lines: list[str] = []
        last: Path | None = None
        for problem in map(relative, self.problems):
            if last not in (None, problem.path):
                lines.append("")
            last = problem.path
            lines.append(str(problem))
        errors, warnings = self._count("error"), self._count("warning")
        summary = f"{_counted(self.files, 'file')}, {_counted(errors, 'problem')}"
        if warnings:
            summary += f", {_counted(warnings, 'warning')}"
        return "\n".join([*lines, "", summary] if lines else [summary])

    def _count(self, severity: str) -> int:
        return sum(problem.severity == severity for problem in self.problems)


def validate(paths: Sequence[Path] = ()) -> Validation:
    """Check the files at `paths`, or all of the project.

    A folder stands for the ``.md`` files in it. Files of the project are checked with those they
    hand to; others for themselves. `UsageError` for a path that leads nowhere.
    """
    members, problems = _project()
    if not paths:
        return Validation(files=len(members), problems=problems)
    wanted = {os.path.realpath(path): path for path in _expanded(paths)}
    found: list[Problem] = []
    for real, path in wanted.items():
        if real in members:
            found += [each for each in problems if os.path.realpath(each.path) == real]
        else:
            found += read_agent_file(path).problems
    return Validation(files=len(wanted), problems=sorted(found))


def _project() -> tuple[set[str], Sequence[Problem]]:
    """The files of the project here, and what is wrong with them.

    Also where the team is one in Python: then tools are not looked up.
    """
    from ekiden.app.project import load_project

    problems: Sequence[Problem]
    definitions: Sequence[AgentDefinition] = ()
    try:
        project = load_project(Path.cwd(), keep_going=True)
        definitions, problems = project.definitions, project.problems
        if project.settings.team is not None:
            files = load_agent_files(Path.cwd())
            definitions, problems = files.definitions, files.problems
    except AgentFilesInvalid as exc:
        problems = [each for each in exc.problems if isinstance(each, Problem)]
    places = [*(each.path for each in definitions), *(each.path for each in problems)]
    return {os.path.realpath(path) for path in places}, sorted(problems)


def _expanded(paths: Iterable[Path]) -> Iterable[Path]:
    for path in paths:
        if path.is_dir():
            yield from sorted(each for each in path.glob("*.md") if not each.name.startswith("."))
        elif os.path.lexists(path):
            yield path
        else:
            raise UsageError(f"there is no file or folder {path}")


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
