"""Loaded settings with the source of each value, their JSON Schema, and their display without
secrets."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping
from functools import reduce
from typing import Any, Literal, TypeAlias

from ekiden.core.dataclass import dataclass
from ekiden.core.documents import Value
from ekiden.core.errors import UnknownSetting
from ekiden.core.questions import EscalationStep
from ekiden.core.text.wording import lazy_pattern
from ekiden.project.settings.keys import ROOT, SETTINGS, Group, ServerEntry, Setting, place_of
from ekiden.project.settings.model import SERVERS, Settings

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


def plain(value: object) -> Any:
    """A value of `Settings` as JSON."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        pairs = ((field.name, getattr(value, field.name)) for field in dataclasses.fields(value))
        return {SERVERS if name == "mcp_servers" else name: plain(each) for name, each in pairs}
    if isinstance(value, EscalationStep):
        return value._asdict()
    if isinstance(value, Mapping):
        return {str(name): plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    return value


HIDDEN = "***"

_PASSWORD = lazy_pattern(r"(://[^/@:\s]*):[^/\s]*@")
_PARAMETER = lazy_pattern(r"([?&][^=&#\s]+)=[^&#\s]+")
_SECRET = lazy_pattern(
    r"token|secret|passw|auth|bearer|credential|(^|[^a-z])(key|pass$|pat$)"
    r"|(api|access|private|signing)[_-]?key",
    re.IGNORECASE,
)
"""Names of arguments and keys whose values are secrets."""
_TOKEN = lazy_pattern(
    r"""(?<![A-Za-z0-9])(?:
        gh[a-z]_\w+ | github_pat_\w+ | glpat-[\w-]+         # code hosting
    |   ek_[a-z0-9]{8}_\w+                                  # our own
    |   sk-[\w-]{8,} | [sr]k_(?:live|test)_\w+ | AIza[\w-]+ | hf_\w{8,} | gsk_\w{8,}
    |   xox[a-z]-[\w-]+ | xapp-[\w-]+ | ya29\.[\w-]+
    |   (?:AKIA|ASIA)[A-Z0-9]{8,}
    |   npm_\w{8,} | pypi-[\w-]{8,} | dop_v1_\w+ | lin_api_\w+ | ntn_\w{8,}
    |   eyJ[\w-]+\.[\w-]+(?:\.[\w-]*)?                      # JWT
    )""",
    re.VERBOSE,
)
"""Tokens of well-known services, recognised by their prefixes."""
_SCHEME = lazy_pattern(r"\b(bearer(?=[ \t])|basic(?=[ \t]+\S{8}))[ \t]+\S+", re.IGNORECASE)
_HEADER_FLAG = lazy_pattern(r"(-H|--?(add-|extra-|http-)?headers?)", re.IGNORECASE)
_ENV_FLAG = lazy_pattern(r"(-e|--?env(ironment)?)", re.IGNORECASE)
_HEADER = lazy_pattern(r"([\w-]+)\s*[:=]\s*\S.*", re.DOTALL)
_PAIR = lazy_pattern(r"(?P<name>-{0,2}[\w.-]+)(?P<mark>=|:\s+)\S.*", re.DOTALL)


def redacted(name: str, value: Any) -> Any:
    """The value of the setting `name`, as JSON without secrets, for a screen or a log.

    This function masks passwords and parameters in addresses, and words that look like the tokens
    of well-known services. In MCP servers it also masks all values in `env` and `headers`,
    arguments that look like secrets (``--token=…``, ``API_KEY=…``), arguments that set headers or
    variables, and all other values whose name suggests a secret.
    """
    if name == SERVERS and isinstance(value, Mapping):
        return {server: _server(each) for server, each in value.items()}
    if name.startswith(f"{SERVERS}."):
        return _server(value)
    return _value(value)


def without_tokens(text: str) -> str:
    """`text` with tokens of well-known services masked."""
    return _TOKEN.sub(HIDDEN, text)


def _server(server: Any) -> Any:
    if not isinstance(server, Mapping):
        return server
    return {key: _member(key, each) for key, each in server.items()}


def _member(key: str, value: Any) -> Any:
    if key in ("env", "headers") and isinstance(value, Mapping):
        return dict.fromkeys(value, HIDDEN)
    if key == "args" and isinstance(value, list):
        return _arguments(value)
    if isinstance(value, str) and _SECRET.search(key):
        return HIDDEN
    return _value(value)


def _value(value: Any) -> Any:
    """A JSON value with secrets masked, at any depth."""
    if isinstance(value, Mapping):
        return {key: _member(key, each) for key, each in value.items()}
    if isinstance(value, list):
        return [_value(each) for each in value]
    return _text(value) if isinstance(value, str) else value


def _arguments(arguments: list[Any]) -> list[Any]:
    shown: list[Any] = []
    before = ""
    for each in arguments:
        if not isinstance(each, str):
            shown.append(_value(each))
            continue
        shown.append(_argument(each, before))
        before = each
    return shown


def _argument(text: str, before: str) -> str:
    """The argument `text`, which follows the argument `before`, with secrets masked."""
    flag, equals, rest = text.partition("=")
    if _HEADER_FLAG.fullmatch(before) or _ENV_FLAG.fullmatch(before):
        return _HEADER.sub(_hide_value, text) if _HEADER.fullmatch(text) else _text(text)
    if equals and (_HEADER_FLAG.fullmatch(flag) or _ENV_FLAG.fullmatch(flag)):
        return f"{flag}={_HEADER.sub(_hide_value, rest)}"
    is_flag_value = before.startswith("-") and "=" not in before and _SECRET.search(before)
    if is_flag_value and not text.startswith("-"):
        return HIDDEN
    pair = _PAIR.fullmatch(text)
    if pair is not None and _SECRET.search(pair["name"]):
        return f"{pair['name']}{pair['mark']}{HIDDEN}"
    return _text(text)


def _hide_value(found: re.Match[str]) -> str:
    name = found[1]
    mark = found[0][len(name) :].lstrip()[0]
    return f"{name}{mark}{' ' if mark == ':' else ''}{HIDDEN}"


def _text(text: str) -> str:
    if "://" in text:
        text = _PARAMETER.sub(rf"\1={HIDDEN}", _PASSWORD.sub(rf"\1:{HIDDEN}@", text))
    return _TOKEN.sub(HIDDEN, _SCHEME.sub(rf"\1 {HIDDEN}", text))


SCHEMA_KEY = "$schema"
"""The key in a file that names the schema for editors. It is not a setting."""


def settings_schema() -> dict[str, Any]:
    """Return a JSON Schema (2020-12) for a settings file. Each call returns a new copy.

    The loader of settings accepts the same keys. The loader also accepts keys in camelCase, which
    are not in the schema.
    """
    found = _schema(ROOT)
    found["properties"] = {SCHEMA_KEY: {"type": "string"}, **found["properties"]}
    return {
        SCHEMA_KEY: "https://json-schema.org/draft/2020-12/schema",
        "$id": "urn:ekiden:settings",
        "title": "Ekiden settings",
        **found,
    }


def _schema(place: Group | Setting) -> dict[str, Any]:
    if isinstance(place, Setting):
        known = {"description": place.meaning, "default": plain(place.default)}
        return {**place.kind.schema(), **known}
    return {
        "type": "object",
        "properties": {key: _schema(each) for key, each in place.children.items()},
        "additionalProperties": False,
    }
