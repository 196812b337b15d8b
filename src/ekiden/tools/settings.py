"""What the built-in tools may do: `tools` of the settings."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated

from ekiden.core.checks.fields import Checked
from ekiden.core.checks.kinds import Allowed


@dataclass(frozen=True, slots=True, kw_only=True)
class FileToolSettings(Checked):
    """Of the tools for files, which never leave the project's folder."""

    max_bytes: Annotated[int, Allowed(low=1)] = 1_000_000
    """Larger files are neither read, searched nor written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpToolSettings(Checked):
    """Of `http_get`."""

    allow: Annotated[
        tuple[str, ...], Allowed(what="hosts", risk="lets agents call these hosts")
    ] = ()
    """Hosts that may be asked: ``example.org``, ``*.example.org``, ``localhost:8080``."""
    timeout: Annotated[float, Allowed(low=0.1, high=3600)] = 20.0
    """How many seconds a host has to answer."""
    max_bytes: Annotated[int, Allowed(low=1)] = 1_000_000
    """How many bytes of an answer are read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShellToolSettings(Checked):
    """Of `shell`."""

    allow: Annotated[
        tuple[str, ...], Allowed(what="programs", risk="lets agents run these programs")
    ] = ()
    """Programs that may be run: ``git``, ``pytest``."""
    timeout: Annotated[float, Allowed(low=0.1, high=3600)] = 60.0
    """How many seconds a program has."""
    max_bytes: Annotated[int, Allowed(low=1)] = 100_000
    """How many bytes of a program's output are kept; the model is told of the rest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WebSearchSettings(Checked):
    """Of `web_search`."""

    url: Annotated[
        str | None, Allowed(filled=True, risk="sends searches of agents to this address")
    ] = None
    """The search service: an address with ``{query}`` in it, which answers in JSON."""
    header: Annotated[str, Allowed(filled=True)] = "Authorization"
    """The header that the key is sent in; `Authorization` gets `Bearer` before it."""
    key_env: Annotated[
        str | None, Allowed(filled=True, risk="sends this variable to the search service")
    ] = None
    """The environment variable that has the service's key; without it none is sent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSettings(Checked):
    """Everything that can be set about built-in tools."""

    ask: Annotated[bool, Allowed(risk="runs tools without approval")] = True
    """Whether a person is asked before a built-in tool, or one of an MCP server, runs."""
    ask_destructive: Annotated[bool, Allowed(risk="runs destructive tools without approval")] = True
    """Whether a person is asked, without `tools.ask` too, before a tool runs that its MCP server
    says is destructive."""
    files: FileToolSettings = field(default_factory=FileToolSettings)
    http_get: HttpToolSettings = field(default_factory=HttpToolSettings)
    shell: ShellToolSettings = field(default_factory=ShellToolSettings)
    web_search: WebSearchSettings = field(default_factory=WebSearchSettings)


def config_command(key: str, value: str | Sequence[str]) -> str:
    """The command that sets a text or a list, safe to be copied into a shell."""
    said = value if isinstance(value, str) else json.dumps(value)
    return f"ekiden config set {key} {shlex.quote(said)}"
