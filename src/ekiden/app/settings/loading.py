"""From files, environment and call to `Settings`."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from ekiden.app.settings.files import SettingsFiles, Unreadable, Where, read_text, settings_files
from ekiden.app.settings.keys import SERVERS, SETTINGS, Setting
from ekiden.app.settings.loaded import LoadedSettings, Origin
from ekiden.app.settings.model import Settings
from ekiden.app.settings.places import Group, ServerEntry, place_of
from ekiden.app.settings.problems import SettingsProblem
from ekiden.app.settings.reading import read_content
from ekiden.core.errors import SettingsInvalid, UnknownSetting


def load_settings(
    root: Path | None = None,
    *,
    overrides: Mapping[str, object] | None = None,
    environ: Mapping[str, str] | None = None,
    home: Path | None = None,
) -> LoadedSettings:
    """The settings that hold in the folder `root` (the current one by default).

    The first that says something of a setting decides: `overrides`, dotted names with values, of
    which those that are `None` were not given; the environment; the project's file; the user's;
    the default. MCP servers are taken one by one. Everything that is wrong, in both files and in
    the environment, is one `SettingsInvalid`; a name in `overrides` that no setting has is
    `UnknownSetting`::

        loaded = load_settings(overrides={"agents.routing.strategy": "rule"})
        loaded.settings.agents.routing.strategy  # "rule"
        loaded.origin("model")  # Origin(kind="default")
    """
    merge = _Merge()
    files = settings_files(root, home)
    if not files.are_one:
        merge.add_file(files, "user")
    merge.add_file(files, "project")
    merge.add_environment(os.environ if environ is None else environ)
    merge.add_call(overrides or {})
    if merge.problems:
        raise SettingsInvalid(merge.problems)
    return merge.result()


_Values = TypeVar("_Values", bound=Any)


class _Merge:
    """Layers, the weakest first."""

    def __init__(self) -> None:
        self.values: dict[str, object] = {}
        self.origins: dict[str, Origin] = {}
        self.problems: list[SettingsProblem] = []

    def add_file(self, files: SettingsFiles, where: Where) -> None:
        path = files.path(where)
        if path is None:
            return
        try:
            text = read_text(path)
        except Unreadable as exc:
            self.problems.append(exc.problem)
            return
        content = read_content(text or "", where=str(path))
        self.problems += content.problems
        for name, found in content.values.items():
            self.values[name] = found.value
            self.origins[name] = Origin(kind=where, where=str(path), line=found.line)

    def add_environment(self, environ: Mapping[str, str]) -> None:
        """A variable that is set to nothing counts as not set."""
        for setting in SETTINGS:
            text = environ.get(setting.env, "") if setting.env else ""
            if setting.env and text.strip():
                value = setting.kind.parse(text.strip())
                origin = Origin(kind="environment", where=setting.env)
                self._add(setting, value, origin, where=setting.env)

    def add_call(self, overrides: Mapping[str, object]) -> None:
        for name, value in overrides.items():
            place = place_of(name)
            if value is None:
                continue
            if isinstance(place, Group):
                raise UnknownSetting(
                    name, near=None, known=[each.name for each in place.settings()]
                )
            self._add(place, value, Origin(kind="call"), where="the call")

    def result(self) -> LoadedSettings:
        values = {
            name: value for name, value in self.values.items() if not _is_left_out(name, value)
        }
        return LoadedSettings(
            settings=_built(values),
            origins={name: origin for name, origin in self.origins.items() if name in values},
        )

    def _add(
        self, place: Setting | ServerEntry, value: object, origin: Origin, *, where: str
    ) -> None:
        try:
            checked = place.kind.read(value)
        except ValueError as exc:
            message = f"{place.name} {exc}"
            self.problems.append(
                SettingsProblem(where=where, code="settings.wrong_value", message=message)
            )
            return
        entries = {place.name: checked}
        if place.name == SERVERS and isinstance(checked, dict):
            entries = {f"{SERVERS}.{name}": each for name, each in checked.items()}
        self.values.update(entries)
        self.origins.update(dict.fromkeys(entries, origin))


def _is_left_out(name: str, value: object) -> bool:
    return value is None and name.startswith(f"{SERVERS}.")


def _built(values: Mapping[str, object]) -> Settings:
    prefix = f"{SERVERS}."
    servers = {
        name.removeprefix(prefix): value
        for name, value in values.items()
        if name.startswith(prefix)
    }
    nested: dict[str, Any] = {"mcp_servers": servers}
    for name, value in values.items():
        if name.startswith(prefix):
            continue
        *above, last = name.split(".")
        inner = nested
        for part in above:
            inner = inner.setdefault(part, {})
        inner[last] = value
    return _changed(Settings(), nested)


def _changed(instance: _Values, changes: Mapping[str, Any]) -> _Values:
    """A copy of a dataclass in which fields, at any depth, have other values."""
    fields = {}
    for name, value in changes.items():
        current = getattr(instance, name)
        fields[name] = _changed(current, value) if dataclasses.is_dataclass(current) else value
    return dataclasses.replace(instance, **fields)
