"""The MCP servers of the settings: their shape, and what of them is not shown."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ekiden.core.kinds import wrong

_MAX_NAME = 100
_ADDRESSES = ("url", "httpUrl", "serverUrl")
"""Other tools have different words for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """An MCP server as other tools write it; one that could not be used is refused."""

    expects: str = 'an object with "command" or "url", or null'

    def read(self, value: object) -> object:
        if value is None:
            return None
        if not isinstance(value, Mapping):
            raise wrong(self.expects, value)
        from ekiden.tools.mcp.servers import server_problems

        for key, problem in server_problems(value):
            raise ValueError(f'has "{key}", which {problem}' if key else problem)
        return dict(value)

    def schema(self) -> dict[str, Any]:
        text = {"type": "string"}
        pairs = {"type": "object", "additionalProperties": text}
        of_text = ("command", *_ADDRESSES)
        return {
            "type": ["object", "null"],
            "properties": {
                **{key: {**text, "pattern": r"\S"} for key in of_text},
                "args": {"type": "array", "items": text},
                "env": pairs,
                "headers": pairs,
            },
            "anyOf": [*({"required": [key]} for key in of_text), {"type": "null"}],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Servers:
    """All MCP servers, by name."""

    expects: str = 'an object of servers, each with "command" or "url"'

    def read(self, value: object) -> object:
        if not isinstance(value, Mapping):
            raise wrong(self.expects, value)
        for name in value:
            fault = server_name_problem(name)
            if fault is not None:
                raise ValueError(f"has a server whose name is wrong: {fault}")
        try:
            return {name: _SERVER.read(each) for name, each in value.items()}
        except ValueError as exc:
            raise ValueError(f"has a server that {exc}") from None

    def schema(self) -> dict[str, Any]:
        names = {"minLength": 1, "maxLength": _MAX_NAME}
        return {"type": "object", "propertyNames": names, "additionalProperties": _SERVER.schema()}


_SERVER = Server()


def server_name_problem(name: object) -> str | None:
    """Why an MCP server cannot have this name."""
    if isinstance(name, str) and name.strip() and len(name) <= _MAX_NAME and name.isprintable():
        return None
    return f"a server's name is 1 to {_MAX_NAME} printable characters"
