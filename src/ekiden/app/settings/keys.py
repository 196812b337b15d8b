"""The table of settings: each name with its kind, its meaning and its environment variable."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import reduce
from typing import get_args

from ekiden.app.settings.kinds import Choice, Flag, Kind, Number, Text, Texts, Whole
from ekiden.app.settings.model import Settings
from ekiden.app.settings.prices import Prices
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
        name="app",
        kind=Text(what="a name"),
        env="EKIDEN_APP",
        meaning="what the app is called: memory and state are kept for each app",
    ),
    Setting(
        name="user",
        kind=Text(what="a user's id", optional=True),
        env="EKIDEN_USER",
        meaning="for whom commands work; null is nobody, who has no memory",
    ),
    Setting(
        name="prices",
        kind=Prices(),
        meaning="what a million tokens of a model cost; others cost what the price list says",
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
        meaning="whether a person is asked before a built-in tool, or one of an MCP server, runs",
    ),
    Setting(
        name="tools.ask_destructive",
        kind=Flag(),
        meaning="whether a person is asked, without `tools.ask` too, before a tool runs that its "
        "MCP server says is destructive",
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
        name="memory.embedding_model",
        kind=Text(what="local, hashing, openai:MODEL or gemini:MODEL"),
        env="EKIDEN_EMBEDDING_MODEL",
        meaning="what memories of the type `vector` are found by; a change embeds them anew",
    ),
    Setting(
        name="memory.dimension",
        kind=Whole(low=1, high=4096, optional=True),
        meaning="numbers in a vector; null takes the model's own length",
    ),
    Setting(
        name="memory.top_k",
        kind=Whole(low=1, high=100),
        meaning="how many memories are found at most, where an agent's file does not say",
    ),
    Setting(
        name="memory.similarity_threshold",
        kind=Number(low=0, high=1, optional=True),
        meaning="how near they must be; null takes what fits the kind of memory",
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
    Setting(
        name="server.host",
        kind=Text(what="an address or a name"),
        env="EKIDEN_HOST",
        meaning="where `ekiden serve` listens; other machines can only call it with a key",
    ),
    Setting(
        name="server.port",
        kind=Whole(low=0, high=65535),
        env="EKIDEN_PORT",
        meaning="its port; 0 takes a free one",
    ),
    Setting(
        name="server.hosts",
        kind=Texts(what="names"),
        meaning="names by which it may be called, beside localhost and `server.host`",
    ),
    Setting(
        name="server.origins",
        kind=Texts(what="origins"),
        meaning="pages of other origins that may call it, such as https://desk.example.com",
    ),
    Setting(
        name="server.allow_local",
        kind=Flag(),
        meaning="whether callers on this machine need no key as long as there is none",
    ),
    Setting(
        name="server.rate",
        kind=Number(low=0, high=100_000),
        meaning="requests a second that one key may make in the long run; 0 is no limit",
    ),
    Setting(
        name="server.burst",
        kind=Whole(low=1, high=1_000_000),
        meaning="requests that one key may make at once",
    ),
    Setting(
        name="server.max_body",
        kind=_BYTES,
        meaning="longer bodies of requests are refused, in bytes",
    ),
    Setting(
        name="server.max_requests",
        kind=Whole(low=1, high=1_000_000),
        meaning="requests that are under way at the same time; more are told to come again",
    ),
    Setting(
        name="server.max_streams",
        kind=Whole(low=1, high=1_000_000),
        meaning="streams and WebSockets that are open at the same time",
    ),
    Setting(
        name="server.max_key_requests",
        kind=Whole(low=0, high=1_000_000),
        meaning="requests of one key at the same time; 0 is a quarter of all, but at least 50",
    ),
    Setting(
        name="server.max_key_streams",
        kind=Whole(low=0, high=1_000_000),
        meaning="streams and WebSockets of one key; 0 is a quarter of all, but at least 50",
    ),
    Setting(
        name="server.max_connections",
        kind=Whole(low=1, high=1_000_000),
        meaning="connections that are open at the same time; more are closed at once",
    ),
    Setting(
        name="server.console",
        kind=Flag(),
        meaning="whether the console, a page for people, is served at `/`",
    ),
    Setting(
        name="retention.days",
        kind=Number(low=0.01, high=36500, optional=True),
        env="EKIDEN_RETENTION_DAYS",
        meaning="sessions that nothing happened in for so long are removed; null keeps them",
    ),
    Setting(
        name="retention.count",
        kind=Whole(low=1, high=1_000_000_000, optional=True),
        env="EKIDEN_RETENTION_COUNT",
        meaning="so many sessions are kept, the newest; null keeps all",
    ),
    Setting(
        name="mirror.include_sensitive_data",
        kind=Flag(),
        meaning="if not, card numbers, telephones, e-mail addresses and keys are covered before "
        "sessions are mirrored",
    ),
    Setting(
        name="mirror.vertex.project",
        kind=Text(what="a project in Google Cloud", optional=True),
        env="EKIDEN_VERTEX_PROJECT",
        meaning="where sessions are mirrored to by `ekiden mirror run`; null mirrors none",
    ),
    Setting(
        name="mirror.vertex.location",
        kind=Text(what="a location in Google Cloud"),
        env="EKIDEN_VERTEX_LOCATION",
        meaning="where the engine is",
    ),
    Setting(
        name="mirror.vertex.engine",
        kind=Text(what="an engine's id", optional=True),
        env="EKIDEN_VERTEX_ENGINE",
        meaning="the agent engine of Vertex AI whose sessions they become",
    ),
)
"""Every setting, in the order of the documentation."""
