"""New agent files: of a team template, or imported from other tools. Existing files are kept."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path, PurePosixPath
from secrets import token_hex
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

from ekiden.core.errors import UserError
from ekiden.core.text.wording import suggestion
from ekiden.core.values import dumps

if TYPE_CHECKING:
    from ekiden.agents import AgentDefinition, AgentFileProblem

Template: TypeAlias = Literal["support", "coding", "research"]
TEMPLATES: tuple[Template, ...] = get_args(Template)

FOLDER = ".ekiden"

_COMMON = "common"
_MODEL = "demo:offline"
_SETTINGS = "settings.json"
_RENAMED = {"gitignore": ".gitignore"}
"""Files with another name among the templates, where their own name would have an effect."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scaffold:
    """The written and kept files of a template."""

    template: Template
    root: Path
    written: tuple[Path, ...]
    kept: tuple[Path, ...]
    """Files that existed before. They are unchanged."""


def scaffold(root: Path, template: str = "support", *, model: str = _MODEL) -> Scaffold:
    """Write the team `template` into the folder `root`. A missing folder is created. The written
    settings contain `model`.

    Existing files are not changed. New files are written atomically. After a crash, a second call
    writes the missing files. Raises `UserError` for an unknown template, and for a folder that is
    not writable.
    """
    known = _template(template)
    written: list[Path] = []
    kept: list[Path] = []
    for source, below in _sources(known):
        path = root / FOLDER / below
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            data = source.read_bytes()
            if path.name == _SETTINGS:
                data = data.replace(dumps(_MODEL).encode(), dumps(model).encode())
            (written if _write_new(path, data) else kept).append(path)
        except OSError as exc:
            raise UserError(
                f"cannot write {path}: {exc.strerror or exc}; name another folder"
            ) from exc
    return Scaffold(template=known, root=root, written=tuple(written), kept=tuple(kept))


def _template(name: str) -> Template:
    for known in TEMPLATES:
        if name == known:
            return known
    raise UserError(
        f"there is no template {name[:80]!r}, choose one of {', '.join(TEMPLATES)}"
        f"{suggestion(name, TEMPLATES)}"
    )


def _sources(template: Template) -> list[tuple[Traversable, PurePosixPath]]:
    """The files of a template, with their paths in the folder."""
    home = files("ekiden.project") / "templates"
    found = [*_walk(home / _COMMON, PurePosixPath()), *_walk(home / template, PurePosixPath())]
    return sorted(found, key=lambda pair: pair[1])


def _walk(folder: Traversable, below: PurePosixPath) -> Iterator[tuple[Traversable, PurePosixPath]]:
    for each in folder.iterdir():
        if each.is_dir():
            yield from _walk(each, below / each.name)
        else:
            yield each, below / _RENAMED.get(each.name, each.name)


def _write_new(path: Path, data: bytes) -> bool:
    """Write the file atomically, unless it exists; returns whether it was written."""
    if os.path.lexists(path):
        return False
    temporary = path.with_name(f".{path.name}.{token_hex(4)}.tmp")
    try:
        with temporary.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        return _move_to_new(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def _move_to_new(temporary: Path, path: Path) -> bool:
    try:
        os.link(temporary, path)
    except FileExistsError:
        return False
    except OSError:
        # The file system has no hard links. A rename could replace a file that another process
        # writes at this very moment.
        if os.path.lexists(path):
            return False
        temporary.rename(path)
    return True


# Imports agent files of other tools into `.ekiden/agents`, in the format of Ekiden.

ImportStatus: TypeAlias = Literal["written", "replaced", "exists", "refused", "no_agent"]
"""`exists`: a file with this name already exists. `refused`: the file has errors. `no_agent`: the
file does not define an agent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedFile:
    """The result of importing one file."""

    source: Path
    status: ImportStatus
    name: str | None = None
    path: Path | None = None
    """The path of the written file, or of the file that a dry run would write."""
    tools: Sequence[str] = ()
    model: str | None = None
    problems: Sequence[AgentFileProblem] = ()

    def to_json(self) -> dict[str, Any]:
        """The result as JSON, as `ekiden agents import --json` prints it."""
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
    """Import the agents in `sources`, which are files and folders, into ``.ekiden/agents``.

    A file outside of the folders of other tools is read in Claude's format. Existing files are kept
    unless `overwrite` is set; links are never followed. An import does not make the files trusted.
    Raises `UserError` for a missing source, before anything is written.
    """
    target = root / ".ekiden" / "agents"
    for folder in (target.parent, target):
        if folder.is_symlink():
            raise UserError(f"{folder} is a link: nothing is written through it")
    found = [file for source in sources for file in _files(source)]
    imported: list[ImportedFile] = []
    taken: set[str] = set()
    for source in found:
        converted = _convert(source, target)
        if converted.definition is None:
            imported.append(converted.report)
            continue
        path = target / f"{converted.definition.name}.md"
        exists = path.is_symlink() or path.exists()
        status: ImportStatus = "replaced" if exists else "written"
        if path.name in taken or path.is_symlink() or (exists and not overwrite):
            status = "exists"
        elif not dry_run:
            _write(path, converted.text)
        taken.add(path.name)
        imported.append(
            ImportedFile(
                source=source,
                status=status,
                name=converted.definition.name,
                path=path,
                tools=converted.definition.tools,
                model=converted.definition.model,
                problems=converted.report.problems,
            )
        )
    return imported


@dataclass(frozen=True, slots=True)
class _Converted:
    """A file in Ekiden's format; without a definition, `report` says why it is not imported."""

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


def _convert(source: Path, target: Path) -> _Converted:
    from ekiden.agents import origin_of, read_agent_file, read_agent_text

    origin = origin_of(source)
    file = read_agent_file(source, origin="claude" if origin == "ekiden" else origin)
    problems = file.problems
    if file.definition is None:
        is_refused = any(each.severity == "error" for each in problems)
        status: ImportStatus = "refused" if is_refused else "no_agent"
        report = ImportedFile(source=source, status=status, name=file.name, problems=problems)
        return _Converted(report)
    text = agent_text(file.definition)
    again = read_agent_text(text, path=target / f"{file.definition.name}.md")
    report = ImportedFile(
        source=source,
        status="refused",
        name=file.definition.name,
        problems=(*problems, *(each for each in again.problems if each.severity == "error")),
    )
    return _Converted(report, again.definition, text)


def agent_text(definition: AgentDefinition) -> str:
    """The text of an agent file in Ekiden's format for a definition of another tool."""
    keys: dict[str, Any] = {
        "name": definition.name,
        "title": definition.title,
        "description": definition.description,
        "model": definition.model,
        "model_settings": _set_fields(definition.model_settings),
        "tools": _tools(definition),
        "budget": _set_fields(definition.budget),
    }
    if definition.guardrails is not None:
        values = _set_fields(definition.guardrails) or {}
        keys["guardrails"] = {key: value for key, value in values.items() if key != "places"}
    lines = [
        f"{key}: {json.dumps(value, ensure_ascii=False)}"
        for key, value in keys.items()
        if value is not None
    ]
    return "\n".join(["---", *lines, "---", definition.instructions, ""])


def _set_fields(value: Any) -> dict[str, Any] | None:
    """The fields of a dataclass that are not `None`; `None` if there are none."""
    if value is None:
        return None
    return {key: each for key, each in asdict(value).items() if each is not None} or None


def _tools(definition: AgentDefinition) -> dict[str, Any] | None:
    from ekiden.core.profile import Confirmation

    if not definition.tools:
        return None
    tools: dict[str, Any] = {"allow": list(definition.tools)}
    confirmation: dict[str, Any] = {}
    if definition.require_confirmation:
        confirmation["require_confirmation"] = list(definition.require_confirmation)
    written = definition.confirmation
    if written is not None and written.prompt_template != Confirmation().prompt_template:
        confirmation["prompt_template"] = written.prompt_template
    if written is not None and written.timeout_s is not None:
        confirmation["timeout"] = written.timeout_s
    return {**tools, "confirmation": confirmation} if confirmation else tools


def _write(path: Path, text: str) -> None:
    from ekiden.project.settings.files import replace_file

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, text.encode())
    except OSError as exc:
        raise UserError(f"cannot write {path}: {exc.strerror or exc}") from exc
