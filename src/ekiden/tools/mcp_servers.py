"""MCP servers in the setting ``mcpServers``, and the names of their tools."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Any, Literal, TypeAlias
from urllib.parse import urlsplit

from ekiden.core.checks.fields import Checked, Seconds
from ekiden.core.errors import McpUnavailable, UnknownTool
from ekiden.core.text.wording import suggestion

TransportName: TypeAlias = Literal["stdio", "http", "sse"]

_TRANSPORTS: Mapping[str, TransportName] = {
    "stdio": "stdio",
    "http": "http",
    "streamablehttp": "http",
    "sse": "sse",
}
"""Transports by their names, in lower case and without dashes and underscores."""
_URL = re.compile(r"https?://[^/?#\s]", re.IGNORECASE)
_URL_KEYS = ("url", "httpUrl", "serverUrl")
_KEYS = frozenset(
    {"type", "transport", "command", "args", "env", "cwd", "headers", "disabled", "timeout"}
) | frozenset(_URL_KEYS)
_VARIABLE = re.compile(r"\$\{(?P<name>\w+)(?::-(?P<default>[^}]*))?\}")
_MAX_NAME = 100
_TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class McpServer(Checked):
    """The configuration of an MCP server: a program to start, or an address to connect to.

    ``${NAME}`` and ``${NAME:-default}`` in `command`, `args`, `env`, `url` and `headers` are
    replaced by environment variables when the server is connected.
    """

    name: str
    transport: TransportName = "stdio"
    command: str = ""
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Environment variables for the server. From the environment of this process, the server gets
    only a few variables, such as ``PATH``."""
    cwd: str | None = None
    """The working folder, relative to the folder of the project. The default is the folder of the
    project."""
    url: str = ""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    disabled: bool = False
    """If true, agents do not get the tools of this server, even if the agents list these tools."""
    timeout: Seconds = _TIMEOUT_S
    """The timeout of the connection, and of each call, in seconds."""

    def identity(self) -> dict[str, Any]:
        """What identifies the server, as JSON: its name, and its program or address as configured,
        without values of the environment."""
        return {
            "name": self.name,
            "transport": self.transport,
            "command": [self.command, *self.args],
            "cwd": self.cwd,
            "url": self.url,
        }

    def filled_in(self, environment: Mapping[str, str] = os.environ) -> McpServer:
        """Return a copy in which variables such as ``${NAME}`` are replaced by their values in
        `environment`. Raises `McpUnavailable` if a variable is not set, or if its value makes a
        header or the address invalid."""
        missing: dict[str, None] = {}

        def value(text: str) -> str:
            def of(found: re.Match[str]) -> str:
                known = environment.get(found["name"], found["default"])
                if known is None:
                    missing[found["name"]] = None
                return known or ""

            return _VARIABLE.sub(of, text)

        filled = replace(
            self,
            command=value(self.command),
            args=tuple(value(each) for each in self.args),
            env={key: value(each) for key, each in self.env.items()},
            url=value(self.url).strip(),
            headers={key: value(each).strip() for key, each in self.headers.items()},
        )
        if missing:
            raise McpUnavailable(
                self.name, f"the environment variable {', '.join(missing)} is not set"
            )
        if filled.url and (fault := _url_fault(filled.url)):
            raise McpUnavailable(self.name, f"its address {fault}")
        for key, each in filled.headers.items():
            if not each.isascii() or not each.isprintable():
                raise McpUnavailable(
                    self.name,
                    f"the header {key!r:.80} has characters that cannot be sent: it is one line "
                    "of printable ASCII",
                )
        return filled


def parse_mcp_servers(entries: Mapping[str, Any]) -> tuple[dict[str, McpServer], tuple[str, ...]]:
    """Return the valid servers by name, and one error sentence for each invalid entry.

    Entries have the common form: ``{"command": …, "args": …, "env": …, "cwd": …}`` or ``{"type":
    "http" | "sse", "url": …, "headers": …}``, with `disabled` and `timeout` (seconds). Keys that
    only other programs use are ignored; keys that look misspelled are reported.
    """
    servers: dict[str, McpServer] = {}
    problems: list[str] = []
    for name, entry in entries.items():
        found = _Entry(name, entry)
        server = found.read()
        problems.extend(
            f"mcpServers.{name}{f'.{key}' if key else ''}: {problem}"
            for key, problem in found.problems
        )
        if server is not None and not found.problems:
            servers[name] = server
    return servers, tuple(problems)


def server_problems(entry: Any) -> list[tuple[str, str]]:
    """The problems of one entry. Each problem has the key in the entry (empty for the whole entry)
    and the message."""
    found = _Entry("server", entry)
    found.read()
    return found.problems


def _url_fault(url: str) -> str | None:
    """The fault of an address. It does not quote the address, which may contain a key."""
    if not _URL.match(url):
        return "must begin with http:// or https:// and name a host"
    if " " in url or not url.isprintable():
        return "must not contain spaces or control characters"
    try:
        parts = urlsplit(url)
        host = parts.hostname
    except ValueError:
        return "is not a valid URL: check the host"
    if not host:
        return "must begin with http:// or https:// and name a host"
    try:
        port = parts.port
    except ValueError:
        port = 0
    return "must have a port from 1 to 65535" if port == 0 else None


class _Entry:
    """Reads one entry of ``mcpServers`` and collects its problems."""

    def __init__(self, name: str, entry: Any) -> None:
        self._name = name
        self._entry = entry
        self.problems: list[tuple[str, str]] = []
        """Each problem with its key; an empty key means the whole entry."""

    def read(self) -> McpServer | None:
        if not self._name or len(self._name) > _MAX_NAME or not self._name.isprintable():
            self._wrong("", f"a name has 1 to {_MAX_NAME} printable characters")
        if not isinstance(self._entry, Mapping):
            self._wrong("", "must be an object with `command` or `url`")
            return None
        for key in self._entry:
            if key not in _KEYS and (meant := suggestion(str(key), _KEYS)):
                self._wrong(str(key), f"is not known{meant}")
        url_key = next((key for key in _URL_KEYS if self._entry.get(key) is not None), "url")
        url = self._text(url_key)
        command = self._text("command")
        if bool(url) == bool(command):
            self._wrong("", "needs either `command`, to start it, or `url`, to ask it")
        transport = self._transport(bool(url))
        if url and "${" not in url and (fault := _url_fault(url)):
            self._wrong(url_key, fault)
        return McpServer(
            name=self._name,
            transport=transport,
            command=command,
            args=self._list("args"),
            env=self._mapping("env"),
            cwd=self._text("cwd") or None,
            url=url,
            headers=self._mapping("headers"),
            disabled=self._flag("disabled"),
            timeout=self._seconds("timeout"),
        )

    def _wrong(self, key: str, problem: str) -> None:
        self.problems.append((key, problem))

    def _transport(self, has_url: bool) -> TransportName:
        default: TransportName = "http" if has_url else "stdio"
        key = "type" if "type" in self._entry else "transport"
        given = self._text(key)
        if not given:
            return default
        found = _TRANSPORTS.get(re.sub(r"[-_]", "", given).lower())
        if found is None or (found == "stdio") == has_url:
            wanted = "'http' or 'sse'" if has_url else "'stdio'"
            self._wrong(key, f"is {given!r}, and must be {wanted} here")
        return found or default

    def _text(self, key: str) -> str:
        value = self._entry.get(key)
        if value is None:
            return ""
        if not isinstance(value, str) or "\0" in value:
            self._wrong(key, "must be text")
            return ""
        return value.strip()

    def _list(self, key: str) -> tuple[str, ...]:
        value = self._entry.get(key, ())
        if not isinstance(value, Sequence) or isinstance(value, str | bytes):
            self._wrong(key, "must be a list of texts")
            return ()
        if not all(isinstance(each, str) and "\0" not in each for each in value):
            self._wrong(key, "must be a list of texts")
            return ()
        return tuple(value)

    def _mapping(self, key: str) -> dict[str, str]:
        value = self._entry.get(key) or {}
        if not isinstance(value, Mapping) or not all(
            isinstance(each, str) and "\0" not in each for pair in value.items() for each in pair
        ):
            self._wrong(key, "must be an object of texts")
            return {}
        return dict(value)

    def _flag(self, key: str) -> bool:
        value = self._entry.get(key, False)
        if not isinstance(value, bool):
            self._wrong(key, "must be true or false")
            return False
        return value

    def _seconds(self, key: str) -> float:
        value = self._entry.get(key, _TIMEOUT_S)
        if (
            isinstance(value, bool)
            or not isinstance(value, int | float)
            or not 0 < value <= sys.float_info.max
        ):
            self._wrong(key, "must be a number of seconds above 0")
            return _TIMEOUT_S
        return float(value)


_MAX_TOOL_NAME = 64
_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9_-]")
_COLON, _CLAUDE = "mcp:", "mcp__"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolReference:
    """The server and the tool in a name of an agent file."""

    server: str
    tool: str | None
    """The name of the tool. `None` means all tools of the server."""
    is_function_style: bool = False
    """Whether `tool` is in the form that `function_style` returns."""

    def matches(self, tool: str) -> bool:
        """Whether the name means this tool of the server."""
        if self.tool is None:
            return True
        return self.tool == (function_style(tool) if self.is_function_style else tool)


def read_name(name: str, servers: Collection[str]) -> ToolReference:
    """Parse ``mcp:server``, ``mcp:server/*``, ``mcp:server/tool`` or ``mcp__server__tool``.

    Raises `UnknownTool` if the server is not in `servers`.
    """
    if name.startswith(_COLON):
        found = _longest(name[len(_COLON) :], ((each, each) for each in servers), "/")
        if found is not None:
            server, tool = found
            return ToolReference(server=server, tool=None if tool in ("", "*") else tool)
    elif name.startswith(_CLAUDE):
        styled = ((function_style(each), each) for each in servers)
        found = _longest(name[len(_CLAUDE) :], styled, "__")
        if found is not None:
            server, tool = found
            every = tool in ("", "*")
            return ToolReference(
                server=server, tool=None if every else tool, is_function_style=True
            )
    raise UnknownTool(
        name,
        known=[f"{_COLON}{server}" for server in servers],
        problem=f"{name!r} names no server of the setting mcpServers",
    )


def tool_name(server: str, tool: str, taken: Collection[str] = ()) -> str:
    """The name for models: ``server__tool``.

    If a name is too long, ambiguous, or has characters that are not allowed, a hash of the real
    names is added at its end. The result is never one of `taken`.
    """
    plain = f"{function_style(server)}__{function_style(tool)}"
    is_clear = (
        plain == f"{server}__{tool}"
        and len(plain) <= _MAX_TOOL_NAME
        and "__" not in server
        and not server.endswith("_")
        and not tool.startswith("_")
    )
    name, real = plain, f"{server}\0{tool}"
    while not is_clear or name in taken:
        mark = blake2b(real.encode("utf-8", "replace"), digest_size=5).hexdigest()
        name = f"{plain[: _MAX_TOOL_NAME - len(mark) - 1]}_{mark}"
        real, is_clear = f"{real}\0", True
    return name


def function_style(name: str) -> str:
    """Return `name` with ``_`` in place of every character that is not allowed in names of
    functions."""
    return _NOT_IN_NAMES.sub("_", name)


def _longest(
    text: str, servers: Iterable[tuple[str, str]], separator: str
) -> tuple[str, str] | None:
    """The server whose name begins `text` (the longest such name), and the rest of `text`."""
    found: tuple[str, str] | None = None
    length = -1
    for written, server in servers:
        if text != written and not text.startswith(written + separator):
            continue
        if len(written) > length:
            found, length = (server, text[len(written) + len(separator) :]), len(written)
    return found
