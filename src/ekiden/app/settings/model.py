"""Everything that can be set, as values; the defaults stand here and nowhere else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ekiden.app.defaults import DEFAULT_STORE
from ekiden.inbox.settings import InboxSettings
from ekiden.routing.settings import RoutingSettings
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
class ChatSettings:
    """`chat`: of `ekiden chat`."""

    history: int = 1000
    """Lines that are remembered; 0 remembers none."""
    markdown: bool = True
    """Whether answers are drawn as Markdown on a terminal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Everything that can be set, after files, environment and call were merged."""

    model: str | None = None
    """``provider:model``, for agents that name none."""
    store: str = DEFAULT_STORE
    """Where sessions are kept."""
    team: str | None = None
    """``module:attribute``; `None` takes the agents' files."""
    agents: AgentsSettings = field(default_factory=AgentsSettings)
    tools: ToolSettings = field(default_factory=ToolSettings)
    mcp_servers: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """``mcpServers``: name to what the file says, which has a `command` or a `url`."""
    local: LocalSettings = field(default_factory=LocalSettings)
    inbox: InboxSettings = field(default_factory=InboxSettings)
    chat: ChatSettings = field(default_factory=ChatSettings)
