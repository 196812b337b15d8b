"""The table of settings: each name with its kind, its meaning and its environment variable."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import reduce
from typing import get_args

from ekiden.app.settings.kinds import Choice, Flag, Kind, Number, Text, Texts, Whole
from ekiden.app.settings.model import Settings
from ekiden.app.settings.servers import Servers
from ekiden.app.settings.steps import Steps
from ekiden.routing.decision import STRATEGIES
from ekiden.routing.settings import Fallback

SERVERS = "mcpServers"
"""Written as other tools write it."""

_TEAM = re.compile(r"[\w.]+:[\w.]+")


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
        kind=Servers(),
        meaning="MCP servers by name, as other tools write them; null leaves one out",
    ),
    Setting(
        name="local.model",
        kind=Text(what="a GGUF file", optional=True),
        env="EKIDEN_LOCAL_MODEL",
        meaning="the model that runs in this process; null takes the one that is installed",
    ),
    Setting(
        name="local.context",
        kind=Whole(low=256, high=1_048_576),
        env="EKIDEN_LOCAL_CTX",
        meaning="tokens that it looks at",
    ),
    Setting(
        name="local.threads",
        kind=Whole(low=1, high=1024, optional=True),
        env="EKIDEN_LOCAL_THREADS",
        meaning="threads that it uses; null takes one per core",
    ),
    Setting(
        name="inbox.role",
        kind=Text(what="a role's name"),
        env="EKIDEN_INBOX_ROLE",
        meaning="who is asked what agents ask people, where they name nobody else",
    ),
    Setting(
        name="inbox.escalation",
        kind=Steps(),
        meaning="who is asked next if nobody answers, each after so many seconds",
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
