"""`Settings` merged from files, environment and arguments."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from ekiden.core.checks.kinds import Choice, Flag, Kind, Text, Texts
from ekiden.core.errors import SettingsInvalid, UnknownSetting
from ekiden.project.settings.agreement import FALLBACK, lacks_default_agent, no_default_agent
from ekiden.project.settings.files import (
    ProblemCode,
    SettingsFiles,
    SettingsProblem,
    Unreadable,
    Where,
    read_content,
    read_text,
    settings_files,
)
from ekiden.project.settings.jsonc import JsoncError, parse
from ekiden.project.settings.keys import SETTINGS, Setting
from ekiden.project.settings.loaded import LoadedSettings, SettingOrigin
from ekiden.project.settings.model import SERVERS, Settings
from ekiden.project.settings.places import Group, ServerEntry, place_of

_FLAGS = {
    **dict.fromkeys(("true", "yes", "on", "1"), True),
    **dict.fromkeys(("false", "no", "off", "0"), False),
}


def from_text(kind: Kind, text: str) -> object:
    """What `text` means as a value of `kind`; it is not checked.

    A flag may be ``yes``, ``on``, ``1`` and their opposites, in any case; a text in double quotes
    is JSON and every other itself, but ``null`` is none where there may be none. A list is
    JSON, or texts with commas between them.
    """
    if isinstance(kind, Flag):
        return _FLAGS.get(text.lower(), text)
    if isinstance(kind, Text) and kind.optional and text == "null":
        return None
    if isinstance(kind, Texts) and not text.startswith(("[", "{", '"')):
        return [each.strip() for each in text.split(",")]
    is_quoted = len(text) >= 2 and text.startswith('"') and text.endswith('"')
    if isinstance(kind, Text | Choice) and not is_quoted:
        return text
    try:
        read = parse(text)
    except JsoncError:
        return text
    return text if read.root is None or read.duplicates else read.root.value


_Values = TypeVar("_Values", bound=Any)


class Merge:
    """Layers, the weakest first."""

    def __init__(self) -> None:
        self.values: dict[str, object] = {}
        self.origins: dict[str, SettingOrigin] = {}
        self.columns: dict[str, int] = {}
        """Of those that stand in a file."""
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
        self.add_text(text or "", path, where)

    def add_text(self, text: str, path: Path, where: Where) -> None:
        """As if it stood in the file `path`."""
        content = read_content(text, where=str(path))
        self.problems += content.problems
        for name, found in content.values.items():
            self.values[name] = found.value
            self.origins[name] = SettingOrigin(kind=where, where=str(path), line=found.line)
            self.columns[name] = found.column

    def add_environment(self, environ: Mapping[str, str]) -> None:
        """A variable that is set to nothing counts as not set."""
        for setting in SETTINGS:
            text = environ.get(setting.env, "") if setting.env else ""
            if setting.env and text.strip():
                value = from_text(setting.kind, text.strip())
                origin = SettingOrigin(kind="environment", where=setting.env)
                self._add(setting, value, origin, where=setting.env)

    def add_call(self, overrides: Mapping[str, object]) -> None:
        for name, value in overrides.items():
            place = place_of(name)
            if value is None:
                continue
            if isinstance(place, Group):
                raise UnknownSetting(name, known=[each.name for each in place.settings()])
            self._add(place, value, SettingOrigin(kind="call"), where="the call")

    def check_together(self) -> None:
        """Add what cannot hold at the same time; each by itself is right already."""
        settings = self.result().settings
        if lacks_default_agent(settings):
            message = no_default_agent(self.origins[FALLBACK])
            self._complain(FALLBACK, "settings.conflict", message)

    def _complain(self, name: str, code: ProblemCode, message: str) -> None:
        origin = self.origins[name]
        self.problems.append(
            SettingsProblem(
                where=origin.where or "the call",
                line=origin.line,
                column=None if origin.line is None else self.columns[name],
                code=code,
                message=message,
            )
        )

    def result(self) -> LoadedSettings:
        values = {
            name: value for name, value in self.values.items() if not _is_left_out(name, value)
        }
        return LoadedSettings(
            settings=_built(values),
            origins={name: origin for name, origin in self.origins.items() if name in values},
        )

    def _add(
        self, place: Setting | ServerEntry, value: object, origin: SettingOrigin, *, where: str
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


def merged_with(files: SettingsFiles, where: Where, text: str) -> LoadedSettings:
    """What would hold if the file of the project or the user said `text`.

    What is wrong elsewhere counts as not set.
    """
    merge = Merge()
    layers: tuple[Where, ...] = ("user", "project")
    for layer in layers:
        path = files.path(layer)
        if layer == where and path is not None:
            merge.add_text(text, path, layer)
        elif not files.are_one:
            merge.add_file(files, layer)
    merge.add_environment(os.environ)
    return merge.result()


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


def load_settings(
    root: Path | None = None,
    *,
    overrides: Mapping[str, object] | None = None,
    environ: Mapping[str, str] | None = None,
    home: Path | None = None,
) -> LoadedSettings:
    """The settings for the folder `root` (the current one by default).

    The first source that has a setting wins: `overrides` (dotted names with values; `None` counts
    as missing), the environment, the project's file, the user's, the default. MCP servers are
    merged one by one. Raises one `SettingsInvalid` with all errors in both files and in the
    environment, including contradictory settings. Raises `UnknownSetting` for an unknown name in
    `overrides`::

        loaded = load_settings(overrides={"agents.routing.strategy": "rule"})
        loaded.settings.agents.routing.strategy  # "rule"
        loaded.origin("model")  # SettingOrigin(kind="default")
    """
    merge = Merge()
    files = settings_files(root, home)
    if not files.are_one:
        merge.add_file(files, "user")
    merge.add_file(files, "project")
    merge.add_environment(os.environ if environ is None else environ)
    merge.add_call(overrides or {})
    if not merge.problems:
        merge.check_together()
    if merge.problems:
        raise SettingsInvalid(merge.problems)
    return merge.result()
