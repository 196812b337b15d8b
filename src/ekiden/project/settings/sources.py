"""Loads settings from files, environment and arguments, with the source of each value, and checks
them against each other."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Iterator, Mapping
from functools import reduce
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypeVar

from ekiden.core.checks.kinds import Choice, Flag, Kind, Text, Texts
from ekiden.core.dataclass import dataclass
from ekiden.core.documents import Value
from ekiden.core.errors import SettingsInvalid, UnknownSetting
from ekiden.core.profile import Scope
from ekiden.core.text.wording import suggestion
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
from ekiden.project.settings.keys import SETTINGS, Group, ServerEntry, Setting, place_of, plain
from ekiden.project.settings.model import SERVERS, Settings, unknown_provider

OriginKind: TypeAlias = Literal["default", "user", "project", "environment", "call"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingOrigin(Value):
    """The source of a setting's value."""

    kind: OriginKind
    where: str | None = None
    """The file, or the environment variable."""
    line: int | None = None
    """The line in the file."""

    def __str__(self) -> str:
        where = self.where if self.line is None else f"{self.where}:{self.line}"
        return self.kind if where is None else f"{self.kind} {where}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingEntry(Value):
    """A setting with its current value."""

    key: str
    value: Any
    """The value as JSON. Servers mask secrets in this value."""
    origin: SettingOrigin


_DEFAULT = SettingOrigin(kind="default")


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedSettings:
    """The settings, with the source of each value."""

    settings: Settings
    origins: Mapping[str, SettingOrigin]
    """The source of each setting that is not at its default."""

    def origin(self, key: str) -> SettingOrigin:
        """The source of the value of `key`. Raises `UnknownSetting` if `key` is not a single
        setting."""
        place = place_of(key)
        if isinstance(place, Group):
            raise UnknownSetting(key, known=[each.name for each in place.settings()])
        return self.origins.get(place.name, _DEFAULT)

    def value(self, key: str) -> Any:
        """The value of `key` as JSON. For a group, the value is an object with the settings of the
        group.

        Raises `UnknownSetting` for an unknown name or an unknown MCP server.
        """
        place = place_of(key)
        if isinstance(place, ServerEntry):
            server = self.settings.mcp_servers.get(place.server)
            if server is None:
                names = [f"{SERVERS}.{name}" for name in self.settings.mcp_servers]
                raise UnknownSetting(key, known=names or [SERVERS])
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


def lookup_value(values: Mapping[str, Any], key: str) -> Any:
    """The value of `key` in `values`, the values of all settings. For a group, the value is an
    object with the settings of the group.

    Raises `UnknownSetting` for an unknown name.
    """
    name = key if key in values or _group(values, key) else place_of(key).name
    if name in values:
        return values[name]
    group = _group(values, name)
    if not group and name != SERVERS:
        names = [each for each in values if each.startswith(f"{SERVERS}.")]
        raise UnknownSetting(key, known=names or [SERVERS])
    return group


def _group(values: Mapping[str, Any], name: str) -> dict[str, Any]:
    group: dict[str, Any] = {}
    for each, value in values.items():
        if each.startswith(f"{name}."):
            rest = each.removeprefix(f"{name}.")
            *above, last = [rest] if name == SERVERS else rest.split(".")
            reduce(lambda place, part: place.setdefault(part, {}), above, group)[last] = value
    return group


_FLAGS = {
    **dict.fromkeys(("true", "yes", "on", "1"), True),
    **dict.fromkeys(("false", "no", "off", "0"), False),
}


def from_text(kind: Kind, text: str) -> object:
    """Convert `text` to a value of `kind`, without checking the value.

    A flag may also be ``yes``, ``on``, ``1`` and their opposites, in upper or lower case. A text in
    double quotes is JSON. Any other text is used unchanged, except ``null`` for an optional
    setting. A list is JSON, or texts separated by commas.
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
    """Merges layers of settings. Add the layer with the lowest precedence first."""

    def __init__(self) -> None:
        self.values: dict[str, object] = {}
        self.origins: dict[str, SettingOrigin] = {}
        self.columns: dict[str, int] = {}
        """The column of each value that comes from a file."""
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
        """Add `text` as the content of the file `path`."""
        content = read_content(text, where=str(path))
        self.problems += content.problems
        for name, found in content.values.items():
            self.values[name] = found.value
            self.origins[name] = SettingOrigin(kind=where, where=str(path), line=found.line)
            self.columns[name] = found.column

    def add_environment(self, environ: Mapping[str, str]) -> None:
        """Add environment variables. An empty variable counts as missing."""
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
        """Add problems of settings that are valid alone but contradict each other."""
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
            name: value
            for name, value in self.values.items()
            if value is not None or not name.startswith(f"{SERVERS}.")  # null removes a server.
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
    """The settings that result if the file of the project or the user has the content `text`.

    Invalid values in other places count as missing.
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
    """A copy of a dataclass with changed fields, at any depth."""
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

    The value of a setting comes from the first source that has one: `overrides` (values by dotted
    name; `None` counts as missing), the environment, the settings file of the project, the settings
    file of the user, the default. MCP servers are merged one by one. Raises `SettingsInvalid`,
    which lists all errors in both files and in the environment, including settings that contradict
    each other. Raises `UnknownSetting` for an unknown name in `overrides`::

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


# Settings that are valid alone, but contradict each other or the agents of the project.

ENABLED = "agents.routing.enabled"
FALLBACK = "agents.routing.fallback"
DEFAULT_AGENT = "agents.routing.default_agent"

_NO_DEFAULT = f"{DEFAULT_AGENT} names no agent"
_IS_DEFAULT = f"{FALLBACK} is 'default_agent'"
_MODELS = ("model", "agents.routing.llm.model")
_BUDGETS = "limits.agents"
_DEFAULT_AGENT_SETTINGS = (DEFAULT_AGENT, FALLBACK, ENABLED)
_LISTED = 20


def lacks_default_agent(settings: Settings) -> bool:
    """Whether unmatched requests go to a default agent, but there is none."""
    routing = settings.agents.routing
    return routing.fallback == "default_agent" and routing.default_agent is None


def unknown_model(name: str, value: object, settings: Settings) -> SettingsProblem | None:
    """The problem of a model without a provider, if `name` is the setting of a model. With a team
    in Python nothing is checked, because it may register providers."""
    if name not in _MODELS or not isinstance(value, str) or settings.team is not None:
        return None
    fault = unknown_provider(value)
    if fault is None:
        return None
    message = f"{name} cannot be {value!r:.80}: {fault}"
    return SettingsProblem(code="settings.wrong_value", message=message)


def no_default_agent(origin: SettingOrigin) -> str:
    """The error message for a missing default agent. `origin` is the source of the fallback
    setting."""
    return (
        f"{_IS_DEFAULT}, but {_NO_DEFAULT}; name one: "
        f"`{command('set', DEFAULT_AGENT, 'NAME', origin=origin)}`"
    )


def refused_set(name: str, loaded: LoadedSettings) -> SettingsProblem:
    """The problem of a change that sets `name` (the fallback or the default agent). `loaded` are
    the settings after the change."""
    origin, own = loaded.origin(FALLBACK), loaded.origin(name)
    if name == FALLBACK:
        first = command("set", DEFAULT_AGENT, "NAME", origin=own)
        then = command("set", FALLBACK, "default_agent", origin=own)
        message = f"{FALLBACK} cannot be 'default_agent' while {_NO_DEFAULT}"
    else:
        first = command("set", FALLBACK, "prompt_user", origin=origin)
        then = command("set", DEFAULT_AGENT, "null", origin=own)
        message = f"{DEFAULT_AGENT} cannot be null while {_IS_DEFAULT} ({origin.where})"
    return _conflict(f"{message}; first `{first}`, then `{then}`")


def refused_unset(name: str, loaded: LoadedSettings) -> SettingsProblem:
    """The problem of a change that removes `name`. `loaded` are the settings after the change."""
    origin = loaded.origin(FALLBACK)
    first = command("set", FALLBACK, "prompt_user", origin=origin)
    if name == FALLBACK:
        first = command("set", DEFAULT_AGENT, "NAME", origin=origin)
    return _conflict(
        f"without {name}, {_IS_DEFAULT} ({origin.where}) and {_NO_DEFAULT}; first `{first}`"
    )


def command(verb: str, *words: str, origin: SettingOrigin) -> str:
    """The command that changes the file in which a value is set."""
    user = " --user" if origin.kind == "user" else ""
    return f"ekiden config {verb}{user} {' '.join(words)}"


def _conflict(message: str) -> SettingsProblem:
    return SettingsProblem(code="settings.conflict", message=message)


def agent_names_check(
    key: str,
    *,
    where: Where = "project",
    root: Path | None = None,
    home: Path | None = None,
    agents: Mapping[str, Scope] | None = None,
) -> Callable[[Settings], None]:
    """Return a `check` for ``set_setting(key, …)`` that refuses names of unknown agents.

    `agents` are the agents of a loaded team; `None` reads the agent files of the project in `root`,
    without running any code. If there are no files, or if the setting `team` names a team in
    Python, every name is valid. The user's file also applies to other projects. So an agent in the
    user's file may be missing in this project, unless a setting of this project needs the agent.
    The check raises `SettingsInvalid`::

        set_setting(key, value, check=agent_names_check(key))
    """
    setting = place_of(key).name

    def check(settings: Settings) -> None:
        is_named_here = setting in (DEFAULT_AGENT, _BUDGETS) and where == "project"
        if not (is_named_here or (setting in _DEFAULT_AGENT_SETTINGS and _is_needed(settings))):
            return
        known = agents
        if known is None:
            known = _agents_in_files(settings, root or Path(), home)
        find = _budget_fault if setting == _BUDGETS else _fault
        fault = None if known is None else find(settings, known)
        if fault is not None:
            raise SettingsInvalid([_problem(fault)])

    return check


def check_default_agent(loaded: LoadedSettings, agents: Mapping[str, Scope]) -> None:
    """Raise `SettingsInvalid`, with file and line, if a required default agent does not exist."""
    fault = _fault(loaded.settings, agents) if _is_needed(loaded.settings) else None
    if fault is not None:
        origin = loaded.origin(DEFAULT_AGENT)
        raise SettingsInvalid([_problem(fault, where=origin.where or "the call", line=origin.line)])


def _is_needed(settings: Settings) -> bool:
    routing = settings.agents.routing
    return routing.fallback == "default_agent" or not routing.enabled


def _fault(settings: Settings, known: Mapping[str, Scope]) -> str | None:
    """The fault of the default agent; `None` if it is valid or not set."""
    routing = settings.agents.routing
    name = routing.default_agent
    if name is None:
        return None
    if name not in known:
        return _refused(name, "no agent has this name", known)
    gets_requests = routing.enabled or routing.fallback == "default_agent"
    if known[name] == "system" and gets_requests:
        return _refused(name, "a system agent gets no requests", known)
    return None


def _budget_fault(settings: Settings, known: Mapping[str, Scope]) -> str | None:
    """The fault of a budget for an unknown agent; `None` if all are known."""
    for name in settings.limits.agents:
        if name not in known:
            listed = ", ".join(sorted(known)[:_LISTED]) or "none"
            return (
                f"{_BUDGETS} cannot have a budget for {name[:80]!r}: no agent has this name; "
                f"known: {listed}{suggestion(name, known)}"
            )
    return None


def _agents_in_files(
    settings: Settings, root: Path, home: Path | None
) -> Mapping[str, Scope] | None:
    from ekiden.agents import load_agent_files

    if settings.team is not None:
        return None
    found = load_agent_files(
        root, home=home, foreign_user_folders=settings.agents.foreign_user_folders
    )
    if not found.definitions and not found.problems:
        return None
    return {each.name: each.scope for each in found.definitions}


def _refused(name: str, why: str, known: Mapping[str, Scope]) -> str:
    able = sorted(each for each, scope in known.items() if scope != "system")
    listed = ", ".join(able[:_LISTED]) or "none"
    more = f" and {len(able) - _LISTED} more" if len(able) > _LISTED else ""
    near = suggestion(name, able) if name not in known else ""
    return f"{DEFAULT_AGENT} cannot be {name[:80]!r}: {why}; known: {listed}{more}{near}"


def _problem(message: str, where: str | None = None, line: int | None = None) -> SettingsProblem:
    return SettingsProblem(where=where, line=line, code="settings.wrong_value", message=message)
