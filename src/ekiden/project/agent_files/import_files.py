"""Writes files of other tools into ``.ekiden/agents`` as Ekiden's own."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

from ekiden.agents import (
    AgentDefinition,
    AgentFileProblem,
    origin_of,
    read_agent_file,
    read_agent_text,
)
from ekiden.core.errors import UserError
from ekiden.core.profile import Confirmation
from ekiden.project.settings.files import replace_file

ImportStatus: TypeAlias = Literal["written", "replaced", "exists", "refused", "no_agent"]
"""`exists`: another file has the name already; `refused`: it cannot be used here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedFile:
    """The result for one file."""

    source: Path
    status: ImportStatus
    name: str | None = None
    path: Path | None = None
    """Where it was written, or would be."""
    tools: Sequence[str] = ()
    model: str | None = None
    problems: Sequence[AgentFileProblem] = ()

    def to_json(self) -> dict[str, Any]:
        """As `ekiden agents import --json` prints it."""
        return {
            "source": str(self.source),
            "status": self.status,
            "name": self.name,
            "path": None if self.path is None else str(self.path),
            "tools": list(self.tools),
            "model": self.model,
            "problems": [problem.to_json() for problem in self.problems],
        }


def import_agent_files(
    sources: Iterable[Path], root: Path, *, overwrite: bool = False, dry_run: bool = False
) -> list[ImportedFile]:
    """Write the agents of `sources`, files and folders with all below, into ``.ekiden/agents``.

    A file outside of the folders of other tools is read as one of Claude's. A file that is there
    stays, unless `overwrite`; a link is never written through. Nothing that is written is trusted
    because of that. `UserError` for a source that leads nowhere, before anything is written.
    """
    target = root / ".ekiden" / "agents"
    for folder in (target.parent, target):
        if folder.is_symlink():
            raise UserError(f"{folder} is a link: nothing is written through it")
    found = [file for source in sources for file in _files(source)]
    imported: list[ImportedFile] = []
    taken: set[str] = set()
    for source in found:
        made = _read(source, target)
        if made.definition is None:
            imported.append(made.report)
            continue
        path = target / f"{made.definition.name}.md"
        is_there = path.is_symlink() or path.exists()
        status: ImportStatus = "replaced" if is_there else "written"
        if path.name in taken or path.is_symlink() or (is_there and not overwrite):
            status = "exists"
        elif not dry_run:
            _write(path, made.text)
        taken.add(path.name)
        imported.append(
            ImportedFile(
                source=source,
                status=status,
                name=made.definition.name,
                path=path,
                tools=made.definition.tools,
                model=made.definition.model,
                problems=made.report.problems,
            )
        )
    return imported


@dataclass(frozen=True, slots=True)
class _Made:
    report: ImportedFile
    definition: AgentDefinition | None = None
    text: str = ""


def _files(source: Path) -> list[Path]:
    if source.is_dir():
        inside = source.rglob("*.md")
        return sorted(each for each in inside if each.is_file() and not each.name.startswith("."))
    if not source.is_file():
        raise UserError(f"there is no file or folder {source}")
    return [source]


def _read(source: Path, target: Path) -> _Made:
    origin = origin_of(source)
    file = read_agent_file(source, origin="claude" if origin == "ekiden" else origin)
    problems = file.problems
    if file.definition is None:
        is_refused = any(each.severity == "error" for each in problems)
        status: ImportStatus = "refused" if is_refused else "no_agent"
        return _Made(ImportedFile(source=source, status=status, name=file.name, problems=problems))
    text = agent_text(file.definition)
    again = read_agent_text(text, path=target / f"{file.definition.name}.md")
    report = ImportedFile(
        source=source,
        status="refused",
        name=file.definition.name,
        problems=(*problems, *(each for each in again.problems if each.severity == "error")),
    )
    return _Made(report, again.definition, text)


def agent_text(definition: AgentDefinition) -> str:
    """The definition of another tool's file as a file of Ekiden."""
    keys: dict[str, Any] = {
        "name": definition.name,
        "title": definition.title,
        "description": definition.description,
        "model": definition.model,
        "model_settings": _given(definition.model_settings),
        "tools": _tools(definition),
        "budget": _given(definition.budget),
    }
    said = definition.guardrails
    if said is not None:
        values = _given(said) or {}
        keys["guardrails"] = {key: value for key, value in values.items() if key != "places"}
    lines = [
        f"{key}: {json.dumps(value, ensure_ascii=False)}"
        for key, value in keys.items()
        if value is not None
    ]
    return "\n".join(["---", *lines, "---", definition.instructions, ""])


def _given(value: Any) -> dict[str, Any] | None:
    if value is None:
        return None
    return {key: each for key, each in asdict(value).items() if each is not None} or None


def _tools(definition: AgentDefinition) -> dict[str, Any] | None:
    if not definition.tools:
        return None
    made: dict[str, Any] = {"allow": list(definition.tools)}
    confirmation: dict[str, Any] = {}
    if definition.require_confirmation:
        confirmation["require_confirmation"] = list(definition.require_confirmation)
    said = definition.confirmation
    if said is not None and said.prompt_template != Confirmation().prompt_template:
        confirmation["prompt_template"] = said.prompt_template
    if said is not None and said.timeout_s is not None:
        confirmation["timeout"] = said.timeout_s
    return {**made, "confirmation": confirmation} if confirmation else made


def _write(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, text.encode())
    except OSError as exc:
        raise UserError(f"cannot write {path}: {exc.strerror or exc}") from exc
