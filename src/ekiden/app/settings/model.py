"""Everything that can be set, as values; the defaults stand here and nowhere else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ekiden.app.defaults import DEFAULT_STORE
from ekiden.core.retention import Retention
from ekiden.inbox.settings import InboxSettings
from ekiden.routing.settings import RoutingSettings
from ekiden.sessions.mirror_settings import MirrorSettings
from ekiden.tools.settings import ToolSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentsSettings:
    """`agents`: where agents come from and who takes a request."""

    routing: RoutingSettings = field(default_factory=RoutingSettings)
    foreign_user_folders: bool = False
    """Whether agents that other tools keep in the home folder (``~/.claude/agents`` …) count."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalSettings:
    """`local`: the model that runs in this process."""

    model: str | None = None
    """A GGUF file; `None` takes the one that is installed."""
    context: int = 4096
    """Tokens that it looks at."""
    threads: int | None = None
    """`None` takes as many as there are cores."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryDefaults:
    """`memory`: how what agents remember is found, where their files do not say."""

    embedding_model: str = "local"
    """What memories of the type `vector` are found by: ``local``, ``hashing``, ``openai:MODEL`` or
    ``gemini:MODEL``."""
    dimension: int | None = None
    """How long its vectors are; `None` takes the model's own length."""
    top_k: int = 5
    """How many memories are found at most."""
    similarity_threshold: float | None = None
    """How near they must be, 0 to 1; `None` takes what fits the kind of memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatSettings:
    """`chat`: of `ekiden chat`."""

    history: int = 1000
    """Lines that are remembered; 0 remembers none."""
    markdown: bool = True
    """Whether answers are drawn as Markdown on a terminal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """`server`: of `ekiden serve`."""

    host: str = "127.0.0.1"
    """Where it listens."""
    port: int = 8321
    hosts: tuple[str, ...] = ()
    """Names by which it may be called, beside those of this machine."""
    origins: tuple[str, ...] = ()
    """Pages of other origins that may call it."""
    allow_local: bool = True
    """Whether callers on this machine need no key as long as there is none."""
    rate: float = 50.0
    """Requests a second of one key; 0 is no limit."""
    burst: int = 200
    """Requests that a key may make at once."""
    max_body: int = 10_000_000
    """Bytes of a request's body."""
    max_requests: int = 10_000
    """Requests at the same time."""
    max_streams: int = 5000
    """Streams and WebSockets at the same time."""
    max_key_requests: int = 0
    """Requests of one key at the same time; 0 is a quarter of all, but at least 50."""
    max_key_streams: int = 0
    """Streams and WebSockets of one key at the same time; 0 is a quarter of all, but at least
    50."""
    max_connections: int = 20_000
    """Connections at the same time."""
    console: bool = True
    """Whether the console is served."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Everything that can be set, after files, environment and call were merged."""

    model: str | None = None
    """``provider:model``, for agents that name none."""
    store: str = DEFAULT_STORE
    """Where sessions are kept."""
    team: str | None = None
    """``module:attribute``; `None` takes the agents' files."""
    app: str = "ekiden"
    """What the app is called: whose memory and state its users share."""
    user: str | None = None
    """For whom commands work; `None` is nobody, who has no memory."""
    prices: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """By model: what a million tokens cost, as `Price` has it."""
    agents: AgentsSettings = field(default_factory=AgentsSettings)
    tools: ToolSettings = field(default_factory=ToolSettings)
    mcp_servers: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """``mcpServers``: name to what the file says, which has a `command` or a `url`."""
    local: LocalSettings = field(default_factory=LocalSettings)
    inbox: InboxSettings = field(default_factory=InboxSettings)
    memory: MemoryDefaults = field(default_factory=MemoryDefaults)
    chat: ChatSettings = field(default_factory=ChatSettings)
    server: ServerSettings = field(default_factory=ServerSettings)
    retention: Retention = field(default_factory=Retention)
    mirror: MirrorSettings = field(default_factory=MirrorSettings)
