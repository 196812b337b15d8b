"""Names of servers' tools: as agent files write them, and as models are shown them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from hashlib import blake2b

from ekiden.core.errors import UnknownTool

_MAX_NAME = 64
_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9_-]")
_COLON, _CLAUDE = "mcp:", "mcp__"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What a name asks for."""

    server: str
    tool: str | None
    """`None`: all of them."""
    is_function_style: bool = False
    """Whether `tool` is written with the letters of function names only."""

    def wants(self, tool: str) -> bool:
        """Whether a tool of the server is meant."""
        if self.tool is None:
            return True
        return self.tool == (function_style(tool) if self.is_function_style else tool)


def read_name(name: str, servers: Collection[str]) -> Wish:
    """Take apart ``mcp:server``, ``mcp:server/*``, ``mcp:server/tool`` or ``mcp__server__tool``.

    `UnknownTool` if it names none of `servers`.
    """
    if name.startswith(_COLON):
        found = _longest(name[len(_COLON) :], ((each, each) for each in servers), "/")
        if found is not None:
            server, tool = found
            return Wish(server=server, tool=None if tool in ("", "*") else tool)
    elif name.startswith(_CLAUDE):
        styled = ((function_style(each), each) for each in servers)
        found = _longest(name[len(_CLAUDE) :], styled, "__")
        if found is not None:
            server, tool = found
            every = tool in ("", "*")
            return Wish(server=server, tool=None if every else tool, is_function_style=True)
    raise UnknownTool(
        name,
        known=[f"{_COLON}{server}" for server in servers],
        problem=f"{name!r} names no server of the setting mcpServers",
    )


def tool_name(server: str, tool: str, taken: Collection[str] = ()) -> str:
    """The name for models: ``server__tool`` where that says which tool it is.

    A name with other letters, too long, or that could be read in two ways ends with a hash of the
    real names instead. It is never one of those that are `taken`.
    """
    plain = f"{function_style(server)}__{function_style(tool)}"
    is_clear = (
        plain == f"{server}__{tool}"
        and len(plain) <= _MAX_NAME
        and "__" not in server
        and not server.endswith("_")
        and not tool.startswith("_")
    )
    name, real = plain, f"{server}\0{tool}"
    while not is_clear or name in taken:
        mark = blake2b(real.encode("utf-8", "replace"), digest_size=5).hexdigest()
        name = f"{plain[: _MAX_NAME - len(mark) - 1]}_{mark}"
        real, is_clear = f"{real}\0", True
    return name


def function_style(name: str) -> str:
    """`name` with every character that functions cannot have as ``_``."""
    return _NOT_IN_NAMES.sub("_", name)


def _longest(
    text: str, servers: Iterable[tuple[str, str]], separator: str
) -> tuple[str, str] | None:
    """The server whose written name begins `text`, and what follows; the longest if several do."""
    found: tuple[str, str] | None = None
    length = -1
    for written, server in servers:
        if text != written and not text.startswith(written + separator):
            continue
        if len(written) > length:
            found, length = (server, text[len(written) + len(separator) :]), len(written)
    return found
