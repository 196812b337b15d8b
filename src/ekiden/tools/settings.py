"""What the built-in tools may do: `tools` of the settings."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class FileToolSettings:
    """Of `read_file` and `write_file`, which never leave the project's folder."""

    max_bytes: int = 1_000_000
    """Larger files are neither read nor written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpToolSettings:
    """Of `http_get`."""

    allow: tuple[str, ...] = ()
    """Hosts that may be asked: ``example.org``, ``*.example.org``, ``localhost:8080``."""
    timeout: float = 20.0
    """Seconds."""
    max_bytes: int = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ShellToolSettings:
    """Of `shell`."""

    allow: tuple[str, ...] = ()
    """Programs that may be run: ``git``, ``pytest``."""
    timeout: float = 60.0
    """Seconds."""
    max_bytes: int = 100_000
    """Of output; the rest is left out, and said to be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSettings:
    """Everything that can be set about built-in tools."""

    ask: bool = True
    """Whether a person is asked before a built-in tool, or one of an MCP server, runs."""
    ask_destructive: bool = True
    """Whether a person is asked, without `ask` too, before a tool runs that its MCP server says is
    destructive."""
    files: FileToolSettings = field(default_factory=FileToolSettings)
    http_get: HttpToolSettings = field(default_factory=HttpToolSettings)
    shell: ShellToolSettings = field(default_factory=ShellToolSettings)


def config_command(key: str, values: Sequence[str]) -> str:
    """The command that sets a list, safe to be copied into a shell."""
    return f"ekiden config set {key} {shlex.quote(json.dumps(values))}"
