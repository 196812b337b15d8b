"""All settings: name, type, default, limits and description, each declared once.

The key in a file, the environment variable, the validation, the JSON Schema and the tables of the
documentation follow from the fields here and in the classes that they name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Annotated, Any

from ekiden.core.checks.fields import Checked
from ekiden.core.checks.kinds import Allowed
from ekiden.core.conversation.messages import BusLimits
from ekiden.core.dataclass import dataclass
from ekiden.inbox.items import InboxSettings
from ekiden.project.stores import DEFAULT_STORE
from ekiden.routing.settings import RoutingSettings
from ekiden.sessions.replica import ReplicaSettings
from ekiden.sessions.session import Retention
from ekiden.tools.settings import ToolSettings

SERVERS = "mcpServers"
"""The key of `Settings.mcp_servers` in files; other tools use the same key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentsSettings(Checked):
    """`agents`: the sources of agents, and routing."""

    foreign_user_folders: bool = False
    """Whether to load other programs' agent files from the home folder (``~/.claude/agents`` …)."""
    routing: RoutingSettings = field(default_factory=RoutingSettings)


@dataclass(frozen=True, slots=True, kw_only=True)
class HandoffSettings(Checked):
    """`handoffs`: rules for the handoffs of every run."""

    depth: Annotated[int | None, Allowed(low=0, high=1000)] = 5
    """The maximum number of handoffs in one run. Further handoffs are refused. With null there is
    no limit."""
    escalate_to: Annotated[str | None, Allowed(what="a role's name")] = None
    """The role of the people who are notified when a handoff is rolled back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitSettings(Checked):
    """`limits`: the limits of runs; null is no limit."""

    turns: Annotated[int | None, Allowed(low=1, high=1_000_000)] = 10
    """The maximum number of turns of a run without its own limit (`--max-turns`)."""
    tokens: Annotated[int | None, Allowed(low=1, high=1_000_000_000_000)] = None
    """The maximum number of tokens of a run without its own limit."""
    money: Annotated[float | None, Allowed(low=1e-9)] = None
    """The maximum cost of the model calls of a run without its own limit."""
    seconds: Annotated[float | None, Allowed(low=0.001)] = None
    """The maximum working time, in seconds, of a run without its own limit."""
    model_seconds: Annotated[float, Allowed(low=0.001)] = 120.0
    """The timeout of one model call, in seconds. A local model on a slow machine needs more."""
    agents: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """The budget of an agent in one run, by the agent's name. It replaces the budget in the agent's
    file."""
    tenants: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """The daily budget for all runs of a tenant together, by the tenant's name. `*` sets the budget
    of all other tenants. A day begins at midnight UTC."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalModelSettings(Checked):
    """`local`: the model in this process."""

    model: Annotated[str | None, Allowed(what="a GGUF file", risk="loads this model file")] = None
    """The file of the local model; null uses the installed model."""
    context: Annotated[int, Allowed(low=256, high=1_048_576, env="EKIDEN_LOCAL_CTX")] = 4096
    """The context length of the local model, in tokens."""
    threads: Annotated[int | None, Allowed(low=1, high=1024)] = None
    """The number of threads for the local model; null uses one thread per core."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryDefaults(Checked):
    """`memory`: the defaults of memory search."""

    embedding_model: Annotated[
        str,
        Allowed(
            what="local, hashing, openai:MODEL or gemini:MODEL",
            env="EKIDEN_EMBEDDING_MODEL",
            risk="sends what agents remember to this address",
        ),
    ] = "local"
    """The embedding model for memories of the type `vector`. After a change of this setting, these
    memories are embedded again."""
    dimension: Annotated[int | None, Allowed(low=1, high=4096)] = None
    """The number of dimensions of an embedding; null uses the model's default."""
    top_k: Annotated[int, Allowed(low=1, high=100)] = 5
    """The maximum number of search results. An agent file can set another number."""
    similarity_threshold: Annotated[float | None, Allowed(high=1)] = None
    """The minimum similarity of search results; null uses the default of the memory type."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatSettings(Checked):
    """`chat`: settings of `ekiden chat`."""

    history: Annotated[int, Allowed(high=100_000)] = 1000
    """The maximum number of lines in the history of `ekiden chat`."""
    markdown: bool = True
    """Whether answers are drawn as Markdown on a terminal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings(Checked):
    """`server`: settings of `ekiden serve`."""

    host: Annotated[str, Allowed(what="an address or a name", env="EKIDEN_HOST")] = "127.0.0.1"
    """The address that `ekiden serve` listens on. Callers on other machines need an API key."""
    port: Annotated[int, Allowed(high=65535, env="EKIDEN_PORT")] = 8321
    """The port that `ekiden serve` listens on; 0 picks a free port."""
    hosts: Annotated[
        tuple[str, ...],
        Allowed(
            what="names, patterns and networks",
            risk="lets pages under these names call your server",
        ),
    ] = ()
    """The host names that the server accepts, besides localhost and `server.host`. An entry is a
    name, a pattern such as *.example.com, or a network such as 10.0.0.0/8."""
    origins: Annotated[
        tuple[str, ...], Allowed(what="origins", risk="lets these pages call your server")
    ] = ()
    """The origins of other websites that may call the server, such as https://desk.example.com."""
    allow_local: bool = True
    """Whether callers on this machine need no API key as long as no key was created."""
    rate: Annotated[float, Allowed(high=100_000)] = 50.0
    """The average number of requests per second that one key may send. 0 means no limit, also for
    wrong keys."""
    burst: Annotated[int, Allowed(low=1, high=1_000_000)] = 200
    """The number of requests that one key may send at once."""
    wrong_keys: Annotated[int, Allowed(high=1_000_000)] = 30
    """The number of wrong keys that one address may send per minute. 0 means no limit."""
    max_body: Annotated[int, Allowed(low=1)] = 10_000_000
    """The maximum size of a request body, in bytes."""
    max_requests: Annotated[int, Allowed(low=1, high=1_000_000)] = 10_000
    """The maximum number of concurrent requests. Further requests are refused with the header
    `Retry-After`."""
    max_streams: Annotated[int, Allowed(low=1, high=1_000_000)] = 5000
    """The maximum number of concurrent streams and WebSockets."""
    max_key_requests: Annotated[int, Allowed(high=1_000_000)] = 0
    """The maximum number of concurrent requests with one key. 0 means a quarter of
    `server.max_requests`, but at least 50."""
    max_key_streams: Annotated[int, Allowed(high=1_000_000)] = 0
    """The maximum number of concurrent streams and WebSockets with one key. 0 means a quarter of
    `server.max_streams`, but at least 50."""
    max_connections: Annotated[int, Allowed(low=1, high=1_000_000)] = 20_000
    """The maximum number of concurrent connections. Further connections are closed at once."""
    console: bool = True
    """Whether the web console is served at `/`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings(Checked):
    """All settings, merged from the files, the environment and the arguments of the call."""

    model: Annotated[
        str | None, Allowed(what="provider:model", risk="sends conversations to this address")
    ] = None
    """The model of agents without a model of their own."""
    store: Annotated[
        str,
        Allowed(
            what="a path, sqlite:///path, postgresql://… or memory:",
            risk="connects to this database",
        ),
    ] = DEFAULT_STORE
    """The address of the session store."""
    team: Annotated[
        str | None,
        Allowed(what="module:attribute", form=r"[\w.]+:[\w.]+", risk="imports this code"),
    ] = None
    """A team in Python, instead of agent files."""
    app: Annotated[str, Allowed(what="a name")] = "ekiden"
    """The name of the app. Each app has its own memories and state."""
    user: Annotated[str | None, Allowed(what="a user's id")] = None
    """The user for whom commands run. With null there is no user, and no memories of a user."""
    prices: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """The price of one million tokens, by model. Models that are not named here use the price
    list."""
    agents: AgentsSettings = field(default_factory=AgentsSettings)
    handoffs: HandoffSettings = field(default_factory=HandoffSettings)
    limits: LimitSettings = field(default_factory=LimitSettings)
    bus: BusLimits = field(default_factory=BusLimits)
    tools: ToolSettings = field(default_factory=ToolSettings)
    mcp_servers: Annotated[Mapping[str, Mapping[str, Any]], Allowed(env="EKIDEN_MCP_SERVERS")] = (
        field(default_factory=dict)
    )
    """MCP servers by name, in the format that other programs also use. The value null removes a
    server."""
    local: LocalModelSettings = field(default_factory=LocalModelSettings)
    inbox: InboxSettings = field(default_factory=InboxSettings)
    memory: MemoryDefaults = field(default_factory=MemoryDefaults)
    chat: ChatSettings = field(default_factory=ChatSettings)
    server: ServerSettings = field(default_factory=ServerSettings)
    retention: Retention = field(default_factory=Retention)
    mirror: ReplicaSettings = field(default_factory=ReplicaSettings)
