"""Writes the files of a team template into a folder, without overwriting any file."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path, PurePosixPath
from secrets import token_hex
from typing import Literal, TypeAlias, get_args

from ekiden.core.errors import UserError
from ekiden.core.text.wording import suggestion
from ekiden.core.values import dumps

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
    found = [
        *_walk(home / _COMMON, PurePosixPath()),
        *_walk(home / template, PurePosixPath()),
    ]
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
