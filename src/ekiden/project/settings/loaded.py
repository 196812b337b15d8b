"""Loaded settings: the values, and the source of each."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any, Literal, TypeAlias

from ekiden.core.documents import Value
from ekiden.core.errors import UnknownSetting
from ekiden.core.questions import EscalationStep
from ekiden.project.settings.keys import SETTINGS
from ekiden.project.settings.model import SERVERS, Settings
from ekiden.project.settings.places import Group, ServerEntry, place_of

OriginKind: TypeAlias = Literal["default", "user", "project", "environment", "call"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingOrigin(Value):
    """Where a value comes from."""

    kind: OriginKind
    where: str | None = None
    """The file, or the environment variable."""
    line: int | None = None
    """In the file."""

    def __str__(self) -> str:
        where = self.where if self.line is None else f"{self.where}:{self.line}"
        return self.kind if where is None else f"{self.kind} {where}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingEntry(Value):
    """A setting as it stands."""

    key: str
    value: Any
    """As JSON has it; servers mask the secrets in it."""
    origin: SettingOrigin


_DEFAULT = SettingOrigin(kind="default")


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedSettings:
    """Settings, and the source of each."""

    settings: Settings
    origins: Mapping[str, SettingOrigin]
    """Of the settings that are set."""

    def origin(self, key: str) -> SettingOrigin:
        """The source of the value of `key`; `UnknownSetting` if it is not a single setting."""
        place = place_of(key)
        if isinstance(place, Group):
            raise UnknownSetting(key, near=None, known=[each.name for each in place.settings()])
        return self.origins.get(place.name, _DEFAULT)

    def value(self, key: str) -> Any:
        """The value of `key` as JSON; for a group, an object of its settings.

        `UnknownSetting` for an unknown name, or an unknown MCP server.
        """
        place = place_of(key)
        if isinstance(place, ServerEntry):
            server = self.settings.mcp_servers.get(place.server)
            if server is None:
                names = [f"{SERVERS}.{name}" for name in self.settings.mcp_servers]
                raise UnknownSetting(key, near=None, known=names or [SERVERS])
            return plain(server)
        parts = place.name.replace(SERVERS, "mcp_servers").split(".")
        return plain(reduce(getattr, parts, self.settings))

    def entries(self) -> Iterator[SettingEntry]:
        """Every setting, and every MCP server, in the order of the documentation."""
        for setting in SETTINGS:
            names = [setting.name]
            if setting.name == SERVERS:
                names = [f"{SERVERS}.{name}" for name in sorted(self.settings.mcp_servers)]
            for name in names:
                yield SettingEntry(key=name, value=self.value(name), origin=self.origin(name))


def value_among(values: Mapping[str, Any], key: str) -> Any:
    """The value of `key` among the `values` of all settings; of a group, an object of all in it.

    `UnknownSetting` if nothing is called so.
    """
    name = key if key in values or _group(values, key) else place_of(key).name
    if name in values:
        return values[name]
    group = _group(values, name)
    if not group and name != SERVERS:
        names = [each for each in values if each.startswith(f"{SERVERS}.")]
        raise UnknownSetting(key, near=None, known=names or [SERVERS])
    return group


def _group(values: Mapping[str, Any], name: str) -> dict[str, Any]:
    group: dict[str, Any] = {}
    for each, value in values.items():
        if each.startswith(f"{name}."):
            rest = each.removeprefix(f"{name}.")
            *above, last = [rest] if name == SERVERS else rest.split(".")
            reduce(lambda place, part: place.setdefault(part, {}), above, group)[last] = value
    return group


def plain(value: object) -> Any:
    """A value of `Settings` as JSON has it."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        pairs = ((field.name, getattr(value, field.name)) for field in dataclasses.fields(value))
        return {_written(name): plain(each) for name, each in pairs}
    if isinstance(value, EscalationStep):
        return value._asdict()
    if isinstance(value, Mapping):
        return {str(name): plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    return value


def _written(attribute: str) -> str:
    return SERVERS if attribute == "mcp_servers" else attribute
