"""The MCP servers of the settings: their shape, and what of them is not shown."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ekiden.core.kinds import shown_type, wrong

_MAX_NAME = 100
_ADDRESSES = ("url", "httpUrl", "serverUrl")
"""Other tools have different words for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class McpServerEntry:
    """An MCP server as other tools write it; what else it says is for those who start it."""

    expects: str = 'an object with "command" or "url", or null'

    def read(self, value: object) -> object:
        if value is None:
            return None
        if not isinstance(value, Mapping):
            raise wrong(self.expects, value)
        given = [key for key in ("command", *_ADDRESSES) if value.get(key) is not None]
        for key in given:
            if not isinstance(value[key], str) or not value[key].strip():
                raise ValueError(f'must have text as "{key}", not {shown_type(value[key])}')
        if ("command" in given) == any(key in given for key in _ADDRESSES):
            raise ValueError('must have either "command" or "url"')
        _check_texts_of_server(value)
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


def _check_texts_of_server(server: Mapping[str, Any]) -> None:
    arguments = server.get("args") or []
    if not isinstance(arguments, list | tuple) or not all(isinstance(x, str) for x in arguments):
        raise ValueError('must have a list of texts as "args"')
    for key in ("env", "headers"):
        pairs = server.get(key) or {}
        if not isinstance(pairs, Mapping) or not all(isinstance(x, str) for x in pairs.values()):
            raise ValueError(f'must have an object of texts as "{key}"')


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


_SERVER = McpServerEntry()


def server_name_problem(name: object) -> str | None:
    """Why an MCP server cannot have this name."""
    if isinstance(name, str) and name.strip() and len(name) <= _MAX_NAME and name.isprintable():
        return None
    return f"a server's name is 1 to {_MAX_NAME} printable characters"
