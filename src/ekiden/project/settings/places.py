"""What dotted names mean: a setting, a group of them, or one MCP server."""

from __future__ import annotations

import re
from dataclasses import field
from typing import TypeAlias

from ekiden.core.checks.kinds import Kind
from ekiden.core.dataclass import dataclass
from ekiden.core.errors import UnknownSetting
from ekiden.core.text.wording import closest
from ekiden.project.settings.keys import SETTINGS, Setting
from ekiden.project.settings.model import SERVERS
from ekiden.project.settings.values import McpServerEntry, server_name_problem

_SHORT_FOR = {"routing": "agents.routing"}
_SERVER = McpServerEntry()


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """An object of the file: the settings and groups in it."""

    name: str
    """Dotted; empty for the file itself."""
    children: dict[str, Group | Setting] = field(default_factory=dict)

    def child(self, word: str) -> Group | Setting | None:
        """What `word` means here, in snake_case or camelCase."""
        return next((self.children[key] for key in self.children if word in _spellings(key)), None)

    def settings(self) -> list[Setting]:
        """All settings in it, at any depth."""
        return [each for each in SETTINGS if not self.name or each.name.startswith(f"{self.name}.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerEntry:
    """One of the MCP servers; a place of its own in files, origins and commands."""

    setting: Setting
    server: str

    @property
    def name(self) -> str:
        return f"{SERVERS}.{self.server}"

    @property
    def kind(self) -> Kind:
        return _SERVER


Place: TypeAlias = Group | Setting | ServerEntry
"""What a dotted name can mean."""


def _grown() -> Group:
    root = Group(name="")
    for setting in SETTINGS:
        group = root
        *above, last = setting.name.split(".")
        for part in above:
            name = f"{group.name}.{part}".lstrip(".")
            inner = group.children.setdefault(part, Group(name=name))
            assert isinstance(inner, Group), "a setting has no settings in it"
            group = inner
        group.children[last] = setting
    return root


def place_of(name: str) -> Place:
    """What a dotted name means; `UnknownSetting` if nothing.

    Parts may be in snake_case or camelCase, and ``routing`` is short for ``agents.routing``::

        place_of("routing.rule.confidenceThreshold").name
        # "agents.routing.rule.confidence_threshold"
    """
    first, dot, rest = name.partition(".")
    found = _walk(f"{_SHORT_FOR[first]}{dot}{rest}" if first in _SHORT_FOR else name)
    if found is None:
        raise unknown(name)
    return found


def _walk(name: str) -> Place | None:
    here: Group = ROOT
    parts = name.split(".")
    for index, part in enumerate(parts):
        found = here.child(part)
        if isinstance(found, Group):
            here = found
            continue
        if found is None or index == len(parts) - 1:
            return found
        rest = ".".join(parts[index + 1 :])
        if found.name == SERVERS and server_name_problem(rest) is None:
            return ServerEntry(setting=found, server=rest)
        return None
    return here


def key_path(place: Place) -> list[tuple[str, ...]]:
    """The keys of a file that lead to `place`, each in all its spellings, the written one first."""
    if isinstance(place, ServerEntry):
        return [*key_path(place.setting), (place.server,)]
    return [_spellings(part) for part in place.name.split(".")]


def unknown(name: str) -> UnknownSetting:
    """The error for a name that means nothing, with at most three similar names."""
    names = [each.name for each in SETTINGS]
    ends = [each for each in names if each.endswith(f".{name}")]
    near = closest(name, [*names, *filter(None, map(_shortened, names))], count=3)
    return UnknownSetting(name, near=list(dict.fromkeys([*ends, *near]))[:3])


def _shortened(name: str) -> str | None:
    for short, full in _SHORT_FOR.items():
        if name.startswith(f"{full}."):
            return short + name.removeprefix(full)
    return None


def _spellings(part: str) -> tuple[str, ...]:
    """How a key may stand in a file, the written form first."""
    if part == SERVERS:
        return SERVERS, "mcp_servers"
    camel = re.sub("_([a-z])", lambda found: found[1].upper(), part)
    return (part,) if camel == part else (part, camel)


ROOT = _grown()
"""The file as a whole."""
