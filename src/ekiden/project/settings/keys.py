"""The table of all settings, derived from the fields of `Settings`: their dotted names, their JSON
Schema, and their values without secrets."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import field, is_dataclass
from functools import reduce
from types import NoneType
from typing import Any, Literal, TypeAlias, get_args, get_origin, get_type_hints

from ekiden.core.checks.kinds import (
    Allowed,
    Choice,
    Flag,
    Kind,
    Number,
    Text,
    Texts,
    shown,
    shown_type,
    wrong,
)
from ekiden.core.dataclass import dataclass
from ekiden.core.errors import UnknownSetting
from ekiden.core.questions import EscalationStep
from ekiden.core.text.wording import closest, lazy_pattern
from ekiden.core.values import is_tenant
from ekiden.project.settings.model import (
    FAULTS,
    SERVERS,
    Fault,
    McpServerEntry,
    Prices,
    Servers,
    Settings,
    server_name_problem,
)

_LIMITS: dict[str, Kind] = {
    "tokens": Number(low=1, high=1_000_000_000_000, whole=True),
    "money": Number(low=1e-9, high=1e9),
    "seconds": Number(low=0.001, high=1e9),
}
_MAX_NAMES = 10_000
_MAX_NAME = 200

_ROLE = Text(what="a role's name", max_length=4096, is_line=True)
_AFTER = Number(low=1, high=1e8)
_MAX_STEPS = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """The steps of an escalation: roles, and seconds without an answer."""

    expects: str = 'a list of steps, each with "role" and "after_s"'

    def read(self, value: object) -> object:
        if not isinstance(value, list | tuple):
            raise wrong(self.expects, value)
        if len(value) > _MAX_STEPS:
            raise ValueError(f"must have at most {_MAX_STEPS} steps, not {len(value)}")
        return tuple(_step(each, number) for number, each in enumerate(value, start=1))

    def schema(self) -> dict[str, Any]:
        step = {
            "type": "object",
            "properties": {"role": _ROLE.schema(), "after_s": _AFTER.schema()},
            "required": ["role", "after_s"],
            "additionalProperties": False,
        }
        return {"type": "array", "items": step, "maxItems": _MAX_STEPS}


def _step(value: object, number: int) -> EscalationStep:
    if isinstance(value, EscalationStep):
        value = {"role": value.role, "after_s": value.after_s}
    if not isinstance(value, Mapping) or set(value) != {"role", "after_s"}:
        what = "an object with other keys" if isinstance(value, Mapping) else shown_type(value)
        raise ValueError(
            f'must have "role" and "after_s", and nothing else, in each step, but number {number} '
            f"is {what}"
        )
    for key, kind in (("role", _ROLE), ("after_s", _AFTER)):
        try:
            kind.read(value[key])
        except ValueError as exc:
            raise ValueError(f'has a step, number {number}, whose "{key}" {exc}') from None
    return EscalationStep(role=value["role"].strip(), after_s=float(value["after_s"]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Budgets:
    """Budgets by the name of their owner, such as an agent."""

    whose: str
    """The plural noun of the owners, for messages."""
    is_name: Callable[[str], bool] | None = None
    """A function that returns whether a name is valid. `None` accepts every name."""

    @property
    def expects(self) -> str:
        return f'an object of {self.whose}, each with some of "tokens", "money" and "seconds"'

    def read(self, value: object) -> object:
        if not isinstance(value, Mapping):
            raise wrong(self.expects, value)
        if len(value) > _MAX_NAMES:
            raise ValueError(f"must have at most {_MAX_NAMES} {self.whose}, not {len(value)}")
        bad = next((name for name in value if self.is_name and not self.is_name(name)), None)
        if bad is not None:
            raise ValueError(f"has the name {shown(bad)}, which {self.whose} cannot have")
        return {_name(name): _budget(str(name), each) for name, each in value.items()}

    def schema(self) -> dict[str, Any]:
        budget = {
            "type": "object",
            "properties": {name: kind.schema() for name, kind in _LIMITS.items()},
            "additionalProperties": False,
            "minProperties": 1,
        }
        return {"type": "object", "additionalProperties": budget, "maxProperties": _MAX_NAMES}


def _name(name: object) -> str:
    if isinstance(name, str) and name.strip() and len(name) <= _MAX_NAME and name.isprintable():
        return name
    raise ValueError(f"has an invalid name: a name has 1 to {_MAX_NAME} printable characters")


def _budget(name: str, value: object) -> dict[str, object]:
    if not isinstance(value, Mapping) or not value or not set(value) <= set(_LIMITS):
        what = "an object with other keys" if isinstance(value, Mapping) else shown_type(value)
        raise ValueError(
            f"must have some of {', '.join(_LIMITS)} for each, but that of {name[:40]!r} is {what}"
        )
    limits: dict[str, object] = {}
    for key, limit in value.items():
        try:
            limits[key] = _LIMITS[key].read(limit)
        except ValueError as exc:
            raise ValueError(f'has a budget of {name[:40]!r} whose "{key}" {exc}') from None
    return limits


_SPECIAL_KINDS: dict[str, Kind] = {
    "prices": Prices(),
    "limits.agents": Budgets(whose="agents"),
    "limits.tenants": Budgets(whose="tenants", is_name=lambda name: name == "*" or is_tenant(name)),
    SERVERS: Servers(),
    "inbox.escalation": Steps(),
}
_PLAIN = Allowed()
_MAX_TEXT = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """The definition of a setting."""

    name: str
    """The dotted name. Each dot begins a new level of nesting in the file."""
    kind: Kind
    env: str
    """The environment variable that also sets this value."""
    owner: type
    """The class that has the setting as a field."""
    risk: str | None = None
    """The effect of a value other than the default, if it needs a trusted project folder."""

    @property
    def default(self) -> object:
        """The value if the setting is not set."""
        return reduce(getattr, self.attributes, _DEFAULTS)

    @property
    def attributes(self) -> tuple[str, ...]:
        """The path of attribute names in `Settings`."""
        return tuple("mcp_servers" if part == SERVERS else part for part in self.name.split("."))

    @property
    def meaning(self) -> str:
        """The description of the setting: the docstring of its field."""
        from ekiden.core.documents import field_texts

        text = field_texts(self.owner)[self.attributes[-1]]
        return " ".join(text.replace("``", "`").split())


def _settings(owner: type, above: str = "") -> Iterator[Setting]:
    for attribute, hint in get_type_hints(owner, include_extras=True).items():
        name = above + (SERVERS if attribute == "mcp_servers" else attribute)
        if is_dataclass(hint):
            yield from _settings(hint, f"{name}.")  # type: ignore[arg-type]
            continue
        allowed = next((each for each in getattr(hint, "__metadata__", ())), _PLAIN)
        kind = get_args(hint)[0] if hasattr(hint, "__metadata__") else hint
        yield Setting(
            name=name,
            kind=_SPECIAL_KINDS.get(name) or _kind_of(kind, allowed, FAULTS.get(name)),
            env=allowed.env or _variable(name),
            owner=owner,
            risk=allowed.risk,
        )


def _variable(name: str) -> str:
    short = name.removeprefix("agents.") if name.startswith("agents.routing.") else name
    return f"EKIDEN_{short.upper().replace('.', '_')}"


def _kind_of(hint: Any, allowed: Allowed, fault: Fault | None) -> Kind:
    """The kind for a type hint: it checks and reads values."""
    if get_origin(hint) is Literal:
        return Choice(words=get_args(hint))
    kinds = [each for each in get_args(hint) if each is not NoneType]
    optional = NoneType in get_args(hint)
    if optional:
        [hint] = kinds
    if hint is bool:
        return Flag()
    if hint in (int, float):
        whole = hint is int
        return Number(low=allowed.low, high=allowed.high, whole=whole, optional=optional)
    form = None if allowed.form is None else re.compile(allowed.form)
    text = Text(
        what=allowed.what,
        max_length=_MAX_TEXT,
        is_line=True,
        form=form,
        check=fault,
        optional=optional,
    )
    return Texts(item=text) if get_origin(hint) is tuple else text


_DEFAULTS: object = Settings()

SETTINGS: tuple[Setting, ...] = tuple(_settings(Settings))
"""Every setting, in the order of the documentation."""

_SHORT_FOR = {"routing": "agents.routing"}
_SERVER = McpServerEntry()


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """An object in a settings file, with the settings and groups in it."""

    name: str
    """The dotted name; empty for the whole file."""
    children: dict[str, Group | Setting] = field(default_factory=dict)

    def child(self, word: str) -> Group | Setting | None:
        """The setting or group with this key, in snake_case or camelCase."""
        return next((self.children[key] for key in self.children if word in _spellings(key)), None)

    def settings(self) -> list[Setting]:
        """All settings in the group, at any depth."""
        return [each for each in SETTINGS if not self.name or each.name.startswith(f"{self.name}.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerEntry:
    """One MCP server in the settings. Files and commands treat a server like a setting."""

    setting: Setting
    server: str

    @property
    def name(self) -> str:
        return f"{SERVERS}.{self.server}"

    @property
    def kind(self) -> Kind:
        return _SERVER


Place: TypeAlias = Group | Setting | ServerEntry
"""The setting, group or server that a dotted name means."""


def _tree() -> Group:
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
    """Find the setting, group or server that a dotted name means. Raises `UnknownSetting` for an
    unknown name.

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
    group: Group = ROOT
    parts = name.split(".")
    for index, part in enumerate(parts):
        found = group.child(part)
        if isinstance(found, Group):
            group = found
            continue
        if found is None or index == len(parts) - 1:
            return found
        rest = ".".join(parts[index + 1 :])
        if found.name == SERVERS and server_name_problem(rest) is None:
            return ServerEntry(setting=found, server=rest)
        return None
    return group


def key_path(place: Place) -> list[tuple[str, ...]]:
    """The keys in a file that lead to `place`, each with all its spellings. New keys are written in
    the first spelling."""
    if isinstance(place, ServerEntry):
        return [*key_path(place.setting), (place.server,)]
    return [_spellings(part) for part in place.name.split(".")]


def unknown(name: str) -> UnknownSetting:
    """The error for an unknown name, with at most three similar names."""
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
    """The spellings of a key in a file; the first one is written."""
    if part == SERVERS:
        return SERVERS, "mcp_servers"
    camel = re.sub("_([a-z])", lambda found: found[1].upper(), part)
    return (part,) if camel == part else (part, camel)


ROOT = _tree()
"""The group of the whole file."""


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


# Display without secrets.

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
