"""The section `tools` of the settings."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from dataclasses import field
from typing import Annotated

from ekiden.core.checks.fields import Checked
from ekiden.core.checks.kinds import Allowed
from ekiden.core.dataclass import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class FileToolSettings(Checked):
    """The settings of the tools for files. The tools never leave the project's folder."""

    max_bytes: Annotated[int, Allowed(low=1)] = 1_000_000
    """The maximum size of a file that tools read, search or write, in bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpToolSettings(Checked):
    """The settings of `http_get`."""

    allow: Annotated[
        tuple[str, ...], Allowed(what="hosts", risk="lets agents call these hosts")
    ] = ()
    """The hosts that the tool may call, such as ``example.org``, ``*.example.org`` or
    ``localhost:8080``."""
    timeout: Annotated[float, Allowed(low=0.1, high=3600)] = 20.0
    """The timeout of a request, in seconds."""
    max_bytes: Annotated[int, Allowed(low=1)] = 1_000_000
    """The maximum number of bytes that are read from a response."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShellToolSettings(Checked):
    """The settings of `shell`."""

    allow: Annotated[
        tuple[str, ...], Allowed(what="programs", risk="lets agents run these programs")
    ] = ()
    """The programs that the tool may run, such as ``git`` or ``pytest``."""
    timeout: Annotated[float, Allowed(low=0.1, high=3600)] = 60.0
    """The timeout of a program, in seconds."""
    max_bytes: Annotated[int, Allowed(low=1)] = 100_000
    """The maximum size of a program's output, in bytes. The rest is cut off, and the model gets the
    size of the rest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WebSearchSettings(Checked):
    """The settings of `web_search`."""

    url: Annotated[
        str | None, Allowed(filled=True, risk="sends searches of agents to this address")
    ] = None
    """The URL of the search service, with ``{query}`` in it. The service must return JSON."""
    header: Annotated[str, Allowed(filled=True)] = "Authorization"
    """The HTTP header that carries the API key. In `Authorization`, `Bearer` is added before the
    key."""
    key_env: Annotated[
        str | None, Allowed(filled=True, risk="sends this variable to the search service")
    ] = None
    """The environment variable that contains the API key of the search service. With null, no key
    is sent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSettings(Checked):
    """The settings of built-in tools."""

    ask: Annotated[bool, Allowed(risk="runs tools without approval")] = True
    """Whether built-in tools and tools of MCP servers need human approval."""
    ask_destructive: Annotated[bool, Allowed(risk="runs destructive tools without approval")] = True
    """Whether destructive tools of MCP servers need approval even if `tools.ask` is false. The
    server declares which of its tools are destructive."""
    files: FileToolSettings = field(default_factory=FileToolSettings)
    http_get: HttpToolSettings = field(default_factory=HttpToolSettings)
    shell: ShellToolSettings = field(default_factory=ShellToolSettings)
    web_search: WebSearchSettings = field(default_factory=WebSearchSettings)


def config_command(key: str, value: str | Sequence[str]) -> str:
    """The command that sets a text or a list, quoted for a shell."""
    text = value if isinstance(value, str) else json.dumps(value)
    return f"ekiden config set {key} {shlex.quote(text)}"
