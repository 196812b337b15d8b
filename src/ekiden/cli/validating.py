"""Checking agent files: those of the project, or any others."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from ekiden.agents import AgentDefinition, Problem, read_agent_file
from ekiden.cli.errors import UsageError
from ekiden.cli.projects import relative
from ekiden.tools import is_project_function

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Validation:
    """What is wrong with some files."""

    files: int
    """How many were looked at."""
    problems: Sequence[Problem]
    """Sorted by file, line and column."""
    not_looked_up: int = 0
    """How many tools are functions of modules that were not imported."""

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
            "not_looked_up": self.not_looked_up,
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
        if self.not_looked_up:
            functions = _counted(self.not_looked_up, "function")
            summary += (
                f"; {functions} not looked up: --imports does that, and runs the project's code"
            )
        return "\n".join([*lines, "", summary] if lines else [summary])

    def _count(self, severity: str) -> int:
        return sum(problem.severity == severity for problem in self.problems)


def validate(
    paths: Sequence[Path] = (), *, imports: bool = False, trust: bool = False
) -> Validation:
    """Check the files at `paths`, or all of the project.

    A folder stands for the ``.md`` files in it. Files of the project are checked with those they
    hand to; others for themselves. Only with `imports` the functions that the project's files name
    are looked up, and the folder must be trusted, or `trust` be given: else `FolderNotTrusted`.
    `UsageError` for a path that leads nowhere.
    """
    from ekiden.app.project import check_files

    if imports:
        from ekiden.app.trust import inspect_workspace
        from ekiden.cli.trust_question import check_trust

        check_trust(inspect_workspace(Path.cwd()), trust=trust)
    checked = check_files(Path.cwd(), inert=not imports)
    problems = _by_file((each.path, each) for each in checked.problems)
    definitions = _by_file((each.path, each) for each in checked.definitions)
    members = problems.keys() | definitions.keys()
    wanted = {os.path.realpath(path): path for path in _expanded(paths)}
    found: list[Problem] = []
    unknown = 0
    for real in wanted if paths else members:
        if real in members:
            found += problems.get(real, ())
            unknown += 0 if imports else sum(map(_functions, definitions.get(real, ())))
        else:
            file = read_agent_file(wanted[real])
            found += file.problems
            unknown += _functions(file.definition or file.partial)
    files = len(wanted) if paths else len(members)
    return Validation(files=files, problems=sorted(found), not_looked_up=unknown)


def _by_file(values: Iterable[tuple[Path, _T]]) -> dict[str, list[_T]]:
    found: dict[str, list[_T]] = {}
    for path, value in values:
        found.setdefault(os.path.realpath(path), []).append(value)
    return found


def _functions(definition: AgentDefinition | None) -> int:
    """How many functions would have to be imported: tools and validators."""
    if definition is None:
        return 0
    named = list(definition.tools)
    if definition.guardrails is not None:
        named += definition.guardrails.functions
    return sum(map(is_project_function, named))


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
