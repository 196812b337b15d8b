"""Tools of MCP servers: their names for files and models, their descriptions and results.

All of it is data from somewhere else: no text is too long, hides characters, or is anything but
text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

from ekiden.core.errors import UnknownTool
from ekiden.core.values import dumps
from ekiden.tools.output import shortened, without_hidden

MAX_RESULT = 100_000
"""Characters of a result."""
_MAX_DESCRIPTION = 4_000
_MAX_REMARK = 1_000
_MAX_SCHEMA = 100_000
_MAX_DEPTH = 32
_ANYTHING: Mapping[str, Any] = {"type": "object", "properties": {}, "additionalProperties": True}


def description_of(tool: Any) -> str:
    """What a server says that its tool does."""
    text = tool.description or tool.title or ""
    return shortened(without_hidden(text).strip(), _MAX_DESCRIPTION)


def is_destructive(tool: Any) -> bool:
    """Whether a server says outright that its tool may destroy or overwrite something."""
    return tool.annotations is not None and tool.annotations.destructive_hint is True


def schema_of(tool: Any) -> dict[str, Any]:
    """The schema of a tool's arguments; one that takes anything where the server's is no use."""
    try:
        schema = _cleaned(tool.input_schema, 0)
        size = len(dumps(schema))
    except (TypeError, ValueError, RecursionError):
        return dict(_ANYTHING)
    if not isinstance(schema, dict) or size > _MAX_SCHEMA or schema.get("type") != "object":
        return dict(_ANYTHING)
    if not isinstance(schema.get("properties"), dict):
        schema["properties"] = {}
    return schema


def text_of(result: Any) -> str:
    """A result as text: its texts, its structured content as JSON, and a word for the rest."""
    texts = [_block(block) for block in result.content]
    structured = result.structured_content
    if structured is not None and not any(_says(text, structured) for text in texts):
        texts.append(dumps(structured))
    return shortened("\n".join(texts), MAX_RESULT)


def _block(block: Any) -> str:
    match block.type:
        case "text":
            return str(block.text)
        case "image" | "audio":
            return f"[{block.type}, {_short(block.mime_type)}, {_size(block.data)}]"
        case "resource_link":
            return f"[link to {_short(block.name)}: {_short(str(block.uri))}]"
        case "resource":
            held = block.resource
            if hasattr(held, "text"):
                return str(held.text)
            return f"[data of {_short(str(held.uri))}, {_size(held.blob)}]"
        case other:
            return f"[{_short(str(other))}]"


def _size(data: str) -> str:
    """How much base64 holds."""
    return f"{len(data) * 3 // 4 - data[-2:].count('='):,} bytes"


def _short(text: str) -> str:
    return shortened(without_hidden(text), 200)


def _says(text: str, value: Any) -> bool:
    """Whether the text says the same: servers are to give structured content as text, too.

    What is no object is wrapped as ``{"result": …}`` by some.
    """
    inner = value["result"] if isinstance(value, dict) and list(value) == ["result"] else value
    if text == inner:
        return True
    try:
        return json.loads(text) in (value, inner)
    except (ValueError, RecursionError):
        return False


def _cleaned(value: Any, depth: int) -> Any:
    if depth > _MAX_DEPTH:
        raise ValueError("too deep")
    if isinstance(value, Mapping):
        return {
            key: shortened(without_hidden(each), _MAX_REMARK)
            if key in ("title", "description") and isinstance(each, str)
            else _cleaned(each, depth + 1)
            for key, each in value.items()
            if key != "$comment"
        }
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_cleaned(each, depth + 1) for each in value]
    return value


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
