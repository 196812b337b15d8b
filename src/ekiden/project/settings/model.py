"""Everything that can be set: name, type, default, limits and description of each, said once.

The key in a file, the environment variable, the check of a value, the JSON Schema and the tables of
the documentation follow from the fields here and in the classes that they name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from ekiden.core.checks.fields import Checked
from ekiden.core.checks.kinds import Allowed
from ekiden.core.conversation.messages import BusLimits
from ekiden.inbox.settings import InboxSettings
from ekiden.project.defaults import DEFAULT_STORE
from ekiden.routing.settings import RoutingSettings
from ekiden.sessions.replica.settings import ReplicaSettings
from ekiden.sessions.retention import Retention
from ekiden.tools.settings import ToolSettings

SERVERS = "mcpServers"
"""How `Settings.mcp_servers` is written, as other tools write it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentsSettings(Checked):
    """`agents`: where agents come from and who takes a request."""

    foreign_user_folders: bool = False
    """Whether agents that other tools keep in the home folder (``~/.claude/agents`` …) count."""
    routing: RoutingSettings = field(default_factory=RoutingSettings)


@dataclass(frozen=True, slots=True, kw_only=True)
class HandoffSettings(Checked):
    """`handoffs`: what holds for the handoffs of every run."""

    depth: Annotated[int | None, Allowed(low=0, high=1000)] = 5
    """How many handoffs one run may make; one more is refused. Null is no limit."""
    escalate_to: Annotated[str | None, Allowed(what="a role's name")] = None
    """The role of the people who are told of every handoff that is rolled back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitSettings(Checked):
    """`limits`: what runs may use; null is no limit."""

    turns: Annotated[int | None, Allowed(low=1, high=1_000_000)] = 10
    """How many turns a run may take, unless it is given another limit, as with `--max-turns`."""
    tokens: Annotated[int | None, Allowed(low=1, high=1_000_000_000_000)] = None
    """How many tokens the model calls of a run may use, unless it is given another limit."""
    money: Annotated[float | None, Allowed(low=1e-9)] = None
    """What the model calls of a run may cost, unless it is given another limit."""
    seconds: Annotated[float | None, Allowed(low=0.001)] = None
    """How many seconds of work a run may take, unless it is given another limit."""
    agents: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """What an agent may spend itself in a run, by its name; instead of the budget of its file."""
    tenants: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """What all runs of a tenant may use together in a day (UTC), by its name; `*` is every tenant
    that is not named."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalSettings(Checked):
    """`local`: the model that runs in this process."""

    model: Annotated[str | None, Allowed(what="a GGUF file", risk="loads this model file")] = None
    """The file of the model; null takes the one that is installed."""
    context: Annotated[int, Allowed(low=256, high=1_048_576, env="EKIDEN_LOCAL_CTX")] = 4096
    """How many tokens it looks at."""
    threads: Annotated[int | None, Allowed(low=1, high=1024)] = None
    """How many threads it uses; null takes one per core."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryDefaults(Checked):
    """`memory`: how what agents remember is found, where their files do not say."""

    embedding_model: Annotated[
        str,
        Allowed(
            what="local, hashing, openai:MODEL or gemini:MODEL",
            env="EKIDEN_EMBEDDING_MODEL",
            risk="sends what agents remember to this address",
        ),
    ] = "local"
    """What finds memories of the type `vector`; after a change they are embedded anew."""
    dimension: Annotated[int | None, Allowed(low=1, high=4096)] = None
    """How many numbers a vector has; null takes the model's own length."""
    top_k: Annotated[int, Allowed(low=1, high=100)] = 5
    """How many memories are found at most, where an agent's file does not say."""
    similarity_threshold: Annotated[float | None, Allowed(high=1)] = None
    """How near they must be; null takes what fits the kind of memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatSettings(Checked):
    """`chat`: of `ekiden chat`."""

    history: Annotated[int, Allowed(high=100_000)] = 1000
    """How many lines `ekiden chat` remembers."""
    markdown: bool = True
    """Whether answers are drawn as Markdown on a terminal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings(Checked):
    """`server`: of `ekiden serve`."""

    host: Annotated[str, Allowed(what="an address or a name", env="EKIDEN_HOST")] = "127.0.0.1"
    """Where `ekiden serve` listens; other machines can only call it with a key."""
    port: Annotated[int, Allowed(high=65535, env="EKIDEN_PORT")] = 8321
    """The port; 0 takes a free one."""
    hosts: Annotated[
        tuple[str, ...],
        Allowed(
            what="names, patterns and networks",
            risk="lets pages under these names call your server",
        ),
    ] = ()
    """By what it may be called, beside localhost and `server.host`: names, patterns such as
    *.example.com, and networks such as 10.0.0.0/8."""
    origins: Annotated[
        tuple[str, ...], Allowed(what="origins", risk="lets these pages call your server")
    ] = ()
    """Pages of other origins that may call it, such as https://desk.example.com."""
    allow_local: bool = True
    """Whether callers on this machine need no key as long as there is none."""
    rate: Annotated[float, Allowed(high=100_000)] = 50.0
    """How many requests a second one key may make in the long run; 0 is no limit, of wrong keys
    neither."""
    burst: Annotated[int, Allowed(low=1, high=1_000_000)] = 200
    """How many requests one key may make at once."""
    wrong_keys: Annotated[int, Allowed(high=1_000_000)] = 30
    """How many wrong keys may come from one address in a minute; 0 is no limit."""
    max_body: Annotated[int, Allowed(low=1)] = 10_000_000
    """How many bytes the body of a request may have."""
    max_requests: Annotated[int, Allowed(low=1, high=1_000_000)] = 10_000
    """How many requests are under way at the same time; more are told to come again."""
    max_streams: Annotated[int, Allowed(low=1, high=1_000_000)] = 5000
    """How many streams and WebSockets are open at the same time."""
    max_key_requests: Annotated[int, Allowed(high=1_000_000)] = 0
    """How many requests of one key are under way at the same time; 0 is a quarter of all, but at
    least 50."""
    max_key_streams: Annotated[int, Allowed(high=1_000_000)] = 0
    """How many streams and WebSockets one key has; 0 is a quarter of all, but at least 50."""
    max_connections: Annotated[int, Allowed(low=1, high=1_000_000)] = 20_000
    """How many connections are open at the same time; more are closed at once."""
    console: bool = True
    """Whether the console, a page for people, is served at `/`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings(Checked):
    """Everything that can be set, after files, environment and call were merged."""

    model: Annotated[
        str | None, Allowed(what="provider:model", risk="sends conversations to this address")
    ] = None
    """The model of agents that name none."""
    store: Annotated[
        str,
        Allowed(
            what="a path, sqlite:///path, postgresql://… or memory:",
            risk="connects to this database",
        ),
    ] = DEFAULT_STORE
    """Where sessions are kept."""
    team: Annotated[
        str | None,
        Allowed(what="module:attribute", form=r"[\w.]+:[\w.]+", risk="imports this code"),
    ] = None
    """A team in Python, instead of the agents' files."""
    app: Annotated[str, Allowed(what="a name")] = "ekiden"
    """What the app is called: memory and state are kept for each app."""
    user: Annotated[str | None, Allowed(what="a user's id")] = None
    """For whom commands work; null is nobody, who has no memory."""
    prices: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """What a million tokens of a model cost; others cost what the price list says."""
    agents: AgentsSettings = field(default_factory=AgentsSettings)
    handoffs: HandoffSettings = field(default_factory=HandoffSettings)
    limits: LimitSettings = field(default_factory=LimitSettings)
    bus: BusLimits = field(default_factory=BusLimits)
    tools: ToolSettings = field(default_factory=ToolSettings)
    mcp_servers: Annotated[Mapping[str, Mapping[str, Any]], Allowed(env="EKIDEN_MCP_SERVERS")] = (
        field(default_factory=dict)
    )
    """MCP servers by name, as other tools write them; null leaves one out."""
    local: LocalSettings = field(default_factory=LocalSettings)
    inbox: InboxSettings = field(default_factory=InboxSettings)
    memory: MemoryDefaults = field(default_factory=MemoryDefaults)
    chat: ChatSettings = field(default_factory=ChatSettings)
    server: ServerSettings = field(default_factory=ServerSettings)
    retention: Retention = field(default_factory=Retention)
    mirror: ReplicaSettings = field(default_factory=ReplicaSettings)
