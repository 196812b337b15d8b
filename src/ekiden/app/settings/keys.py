"""The table of settings: each name with its kind, its meaning and its environment variable."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import reduce
from typing import TypeAlias, get_args

from ekiden.app.settings.kinds import Choice, Flag, Kind, Number, Server, Text, Texts, Whole
from ekiden.app.settings.model import Settings
from ekiden.core.errors import UnknownSetting
from ekiden.core.suggest import did_you_mean
from ekiden.routing.decision import STRATEGIES
from ekiden.routing.settings import Fallback

SERVERS = "mcpServers"
"""Written as other tools write it."""

_SHORT_FOR = {"routing": "agents.routing"}
_TEAM = re.compile(r"[\w.]+:[\w.]+")
_MAX_SERVER_NAME = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """Something that can be set."""

    name: str
    """Dotted, as it is nested in the file."""
    kind: Kind
    meaning: str
    env: str | None = None
    """The environment variable that sets it too."""

    @property
    def default(self) -> object:
        """What holds when nobody sets it."""
        return reduce(getattr, self.attributes, _DEFAULTS)

    @property
    def attributes(self) -> tuple[str, ...]:
        """Where `Settings` has it."""
        return tuple("mcp_servers" if part == SERVERS else part for part in self.name.split("."))


_DEFAULTS: object = Settings()
_SECONDS = Number(low=0.1, high=3600)
_BYTES = Whole(low=1, high=1_000_000_000)
_PERCENT = Whole(low=0, high=100)
_MODEL = Text(what="provider:model", optional=True)

SETTINGS: tuple[Setting, ...] = (
    Setting(
        name="model",
        kind=_MODEL,
        env="EKIDEN_MODEL",
        meaning="the model of agents that name none",
    ),
    Setting(
        name="store",
        kind=Text(what="a path, sqlite:///path, postgresql://… or memory:"),
        env="EKIDEN_STORE",
        meaning="where sessions are kept",
    ),
    Setting(
        name="team",
        kind=Text(what="module:attribute", optional=True, form=_TEAM),
        env="EKIDEN_TEAM",
        meaning="a team in Python, instead of the agents' files",
    ),
    Setting(
        name="agents.foreign_user_folders",
        kind=Flag(),
        meaning="whether agents that other tools keep in the home folder count",
    ),
    Setting(
        name="agents.routing.enabled",
        kind=Flag(),
        env="EKIDEN_ROUTING_ENABLED",
        meaning="if not, a new conversation goes to the team's entry agent",
    ),
    Setting(
        name="agents.routing.strategy",
        kind=Choice(words=STRATEGIES),
        env="EKIDEN_ROUTING_STRATEGY",
        meaning="how an agent is chosen",
    ),
    Setting(
        name="agents.routing.rule.confidence_threshold",
        kind=_PERCENT,
        env="EKIDEN_ROUTING_THRESHOLD",
        meaning="at or above it, rules decide in `hybrid`",
    ),
    Setting(
        name="agents.routing.semantic.threshold",
        kind=Number(low=0, high=1, optional=True),
        meaning="how probable a choice must be; null takes the value that was measured",
    ),
    Setting(
        name="agents.routing.llm.model",
        kind=_MODEL,
        meaning="the model that routes; null takes the team's",
    ),
    Setting(
        name="agents.routing.llm.timeout",
        kind=Whole(low=1, high=600_000),
        meaning="milliseconds that the model has to route",
    ),
    Setting(
        name="agents.routing.sticky.switch",
        kind=Flag(),
        meaning="whether a message that is clearly another agent's goes there",
    ),
    Setting(
        name="agents.routing.fallback",
        kind=Choice(words=get_args(Fallback)),
        meaning="what happens when nobody matches",
    ),
    Setting(
        name="agents.routing.default_agent",
        kind=Text(what="an agent's name", optional=True),
        meaning="who gets a request that nobody matches, with the fallback `default_agent`",
    ),
    Setting(
        name="tools.ask",
        kind=Flag(),
        meaning="whether a person is asked before a built-in tool runs",
    ),
    Setting(
        name="tools.files.max_bytes",
        kind=_BYTES,
        meaning="larger files are neither read nor written",
    ),
    Setting(
        name="tools.http_get.allow",
        kind=Texts(what="hosts"),
        meaning="hosts that may be asked",
    ),
    Setting(
        name="tools.http_get.timeout",
        kind=_SECONDS,
        meaning="seconds that a host has to answer",
    ),
    Setting(
        name="tools.http_get.max_bytes",
        kind=_BYTES,
        meaning="how much of an answer is read",
    ),
    Setting(
        name="tools.shell.allow",
        kind=Texts(what="programs"),
        meaning="programs that may be run",
    ),
    Setting(
        name="tools.shell.timeout",
        kind=_SECONDS,
        meaning="seconds that a program has",
    ),
    Setting(
        name="tools.shell.max_bytes",
        kind=_BYTES,
        meaning="how much of a program's output is kept",
    ),
    Setting(
        name=SERVERS,
        kind=Server(),
        meaning="MCP servers by name, as other tools write them; null leaves one out",
    ),
    Setting(
        name="local.model",
        kind=Text(what="a GGUF file", optional=True),
        meaning="the model that runs in this process; null takes the one that is installed",
    ),
    Setting(
        name="local.context",
        kind=Whole(low=256, high=1_048_576),
        meaning="tokens that it looks at",
    ),
    Setting(
        name="local.threads",
        kind=Whole(low=1, high=1024, optional=True),
        meaning="threads that it uses; null takes one per core",
    ),
    Setting(
        name="chat.history",
        kind=Whole(low=0, high=100_000),
        meaning="lines that `ekiden chat` remembers",
    ),
    Setting(
        name="chat.markdown",
        kind=Flag(),
        meaning="whether answers are drawn as Markdown on a terminal",
    ),
)
"""Every setting, in the order of the documentation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """An object of the file: the settings and groups in it."""

    name: str
    """Dotted; empty for the file itself."""
    children: dict[str, Group | Setting] = field(default_factory=dict)

    def child(self, word: str) -> Group | Setting | None:
        """What `word` means here, in snake_case or camelCase."""
        return self.children.get(word) or self.children.get(_other_form(word))

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
        return self.setting.kind


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
        rest = ".".join(parts[index + 1 :])
        if found is None or not rest:
            return found
        if found.name == SERVERS and server_name_problem(rest) is None:
            return ServerEntry(setting=found, server=rest)
        return None
    return here


def unknown(name: str) -> UnknownSetting:
    """The error for a name that means nothing, with the nearest one and all there are."""
    names = [each.name for each in SETTINGS]
    near = did_you_mean(name, [*names, *(short for short in map(_shortened, names) if short)])
    return UnknownSetting(name, near=near, known=names)


def server_name_problem(name: str) -> str | None:
    """Why an MCP server cannot have this name."""
    if not name.strip() or len(name) > _MAX_SERVER_NAME or not name.isprintable():
        return f"a server's name is 1 to {_MAX_SERVER_NAME} printable characters"
    return None


def _shortened(name: str) -> str | None:
    for short, full in _SHORT_FOR.items():
        if name.startswith(f"{full}."):
            return short + name.removeprefix(full)
    return None


def _other_form(word: str) -> str:
    if word == "mcp_servers":
        return SERVERS
    # Only a letter behind a small letter or digit: ``Model`` and ``MODEL`` are not meant.
    return re.sub(r"(?<=[a-z0-9])[A-Z]", lambda found: f"_{found.group().lower()}", word)


ROOT = _grown()
"""The file as a whole."""
