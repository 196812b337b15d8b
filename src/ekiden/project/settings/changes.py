"""Changes a setting in a file and keeps every other byte."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from ekiden.core.errors import SettingsInvalid, SettingsNotWritten, UnknownSetting
from ekiden.project.settings.agreement import (
    DEFAULT_AGENT,
    FALLBACK,
    lacks_default_agent,
    refused_set,
    refused_unset,
    unknown_model,
)
from ekiden.project.settings.files import (
    SettingsFiles,
    SettingsProblem,
    Unreadable,
    Where,
    locked,
    read_content,
    read_text,
    replace_file,
    settings_files,
    sync_folder,
)
from ekiden.project.settings.json_edit import KeyPath, with_value, without
from ekiden.project.settings.jsonc import JsoncError
from ekiden.project.settings.keys import Setting
from ekiden.project.settings.model import Settings
from ekiden.project.settings.places import Group, ServerEntry, key_path, place_of
from ekiden.project.settings.sources import from_text, merged_with

_PATIENCE_S = 10.0

_Judge: TypeAlias = Callable[[str, str], None]
"""Raises what speaks against replacing the first text by the second."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingChange:
    """The change of a setting in a file."""

    name: str
    """The name of the setting."""
    path: Path
    """The path of the settings file."""
    is_changed: bool
    """Whether the content of the file has changed."""
    value: Any = None
    """The new value."""


def set_setting(
    key: str,
    value: object,
    *,
    where: Where = "project",
    root: Path | None = None,
    home: Path | None = None,
    check: Callable[[Settings], None] | None = None,
) -> SettingChange:
    """Set `key` in the project's or the user's file, which is created if it is missing.

    Text is read as on the command line: ``true``, ``80``, ``null``, JSON for lists and objects, and
    ``rule`` as well as ``"rule"``. The change is atomic and on disk when this returns; concurrent
    writers take turns. `check` gets the resulting settings, and raises an exception to refuse them.
    An unknown name raises `UnknownSetting`. An invalid value, a contradiction or a faulty file
    raises `SettingsInvalid`. A file that cannot be written raises `SettingsNotWritten`. Then
    nothing changes::

        set_setting("agents.routing.strategy", "rule")
    """
    place = place_of(key)
    if isinstance(place, Group):
        raise _not_one(key, place)
    wanted = _checked(place, value)

    def changed(text: str) -> str:
        return with_value(text, key_path(place), wanted)

    def judge(_: str, fresh: str) -> None:
        loaded = merged_with(files, where, fresh)
        if place.name in (FALLBACK, DEFAULT_AGENT) and lacks_default_agent(loaded.settings):
            raise SettingsInvalid([refused_set(place.name, loaded)])
        unknown = unknown_model(place.name, wanted, loaded.settings)
        if unknown is not None:
            raise SettingsInvalid([unknown])
        if check is not None:
            check(loaded.settings)

    files = settings_files(root, home)
    path = _file(files, where)
    is_changed = _rewrite(path, changed, judge=judge, must_be_valid=True)
    return SettingChange(name=place.name, path=path, is_changed=is_changed, value=wanted)


def unset_setting(
    key: str, *, where: Where = "project", root: Path | None = None, home: Path | None = None
) -> SettingChange:
    """Remove `key`, a setting or a whole group, from the project's or the user's file.

    Comments are kept. An unknown name can be removed if it is in the file; otherwise it raises
    `UnknownSetting`. The other errors are those of `set_setting`.
    """
    files = settings_files(root, home)
    path = _file(files, where)

    def judge(text: str, fresh: str) -> None:
        loaded = merged_with(files, where, fresh)
        if lacks_default_agent(loaded.settings) and not lacks_default_agent(
            merged_with(files, where, text).settings
        ):
            raise SettingsInvalid([refused_unset(place.name, loaded)])

    try:
        place = place_of(key)
    except UnknownSetting:
        literal: KeyPath = [(part,) for part in key.split(".")]
        if not _rewrite(path, lambda text: without(text, literal)):
            raise
        return SettingChange(name=key, path=path, is_changed=True)
    is_changed = _rewrite(path, lambda text: without(text, key_path(place)), judge=judge)
    return SettingChange(name=place.name, path=path, is_changed=is_changed)


def _not_one(key: str, group: Group) -> UnknownSetting:
    return UnknownSetting(key, known=[each.name for each in group.settings()])


def _checked(place: Setting | ServerEntry, value: object) -> Any:
    wanted = from_text(place.kind, value.strip()) if isinstance(value, str) else value
    try:
        place.kind.read(wanted)
    except ValueError as exc:
        problem = SettingsProblem(code="settings.wrong_value", message=f"{place.name} {exc}")
        raise SettingsInvalid([problem]) from exc
    return _jsonable(wanted)


def _jsonable(value: object) -> Any:
    if isinstance(value, Mapping):
        return {str(name): _jsonable(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_jsonable(each) for each in value]
    return value


def _file(files: SettingsFiles, where: Where) -> Path:
    path = files.path(where)
    if path is None:
        raise SettingsNotWritten("the home folder is unknown; set HOME")
    return path


def _no_objection(text: str, fresh: str) -> None:
    """A `_Judge` to whom everything is right."""


def _rewrite(
    path: Path,
    edit: Callable[[str], str],
    *,
    judge: _Judge = _no_objection,
    must_be_valid: bool = False,
) -> bool:
    """Replace the file's text by what `edit` makes of it; whether that is another text."""
    target = Path(os.path.realpath(path))
    try:
        if not target.exists():
            if not must_be_valid:
                return False
            # What is refused leaves no folder behind.
            judge("", _edited(path, "", edit, must_be_valid=True))
        _make_folder(target.parent)
        with locked(target, patience_s=_PATIENCE_S):
            text = read_text(target)
            fresh = _edited(path, text or "", edit, must_be_valid=must_be_valid)
            judge(text or "", fresh)
            if fresh == text:
                return False
            if text is not None and not os.access(target, os.W_OK):
                raise SettingsNotWritten(f"{path} is write-protected; it is unchanged")
            replace_file(target, fresh.encode())
            return True
    except Unreadable as exc:
        raise SettingsInvalid([exc.problem]) from exc
    except TimeoutError as exc:
        raise SettingsNotWritten(
            f"another process has been changing {path} for {_PATIENCE_S:g} s; try again"
        ) from exc
    except OSError as exc:
        raise SettingsNotWritten(
            f"cannot write {path}: {exc.strerror or exc}; it is unchanged"
        ) from exc


def _make_folder(folder: Path) -> None:
    if not folder.exists():
        folder.mkdir(mode=0o700, exist_ok=True)
        sync_folder(folder.parent)


def _edited(path: Path, text: str, edit: Callable[[str], str], *, must_be_valid: bool) -> str:
    try:
        fresh = edit(text)
    except JsoncError as exc:
        problems = read_content(text, where=str(path)).problems
        raise SettingsInvalid(problems) from exc
    problems = read_content(fresh, where=str(path)).problems if must_be_valid else []
    if problems:
        raise SettingsInvalid(problems)
    return fresh
