"""Settings that hold named entries: budgets, prices, MCP servers, escalation chains."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ekiden.core.checks.kinds import Number, shown_type, wrong

_AMOUNT = Number(low=0, high=1e9)
_KEYS = ("input", "output", "cached_input")
_NEEDED = {"input", "output"}
_MAX_MODELS = 1_000
_MAX_NAME = 200
_MAX_SERVER_NAME = 100
_ADDRESSES = ("url", "httpUrl", "serverUrl")
"""Other tools have different words for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """What a million tokens of a model cost, by model."""

    expects: str = 'an object of models, each with "input" and "output" per million tokens'

    def read(self, value: object) -> object:
        if not isinstance(value, Mapping):
            raise wrong(self.expects, value)
        if len(value) > _MAX_MODELS:
            raise ValueError(f"must have at most {_MAX_MODELS} models, not {len(value)}")
        return {_name(name): _price(str(name), each) for name, each in value.items()}

    def schema(self) -> dict[str, Any]:
        price = {
            "type": "object",
            "properties": dict.fromkeys(_KEYS, _AMOUNT.schema()),
            "required": sorted(_NEEDED),
            "additionalProperties": False,
        }
        return {"type": "object", "additionalProperties": price, "maxProperties": _MAX_MODELS}


def _name(name: object) -> str:
    if isinstance(name, str) and name.strip() and len(name) <= _MAX_NAME and name.isprintable():
        return name
    raise ValueError(
        f"has a model whose name is wrong: it has 1 to {_MAX_NAME} printable characters"
    )


def _price(name: str, value: object) -> dict[str, object]:
    is_right = isinstance(value, Mapping) and _NEEDED <= set(value) <= set(_KEYS)
    if not isinstance(value, Mapping) or not is_right:
        what = "an object with other keys" if isinstance(value, Mapping) else shown_type(value)
        raise ValueError(
            'must have "input" and "output", and nothing else but "cached_input", for each model, '
            f"but that of {name[:40]!r} is {what}"
        )
    amounts: dict[str, object] = {}
    for key in _KEYS:
        if value.get(key) is None and key not in _NEEDED:
            continue
        try:
            amounts[key] = _AMOUNT.read(value[key])
        except ValueError as exc:
            raise ValueError(f'has a price of {name[:40]!r} whose "{key}" {exc}') from None
    return amounts


@dataclass(frozen=True, slots=True, kw_only=True)
class McpServerEntry:
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
        names = {"minLength": 1, "maxLength": _MAX_SERVER_NAME}
        return {"type": "object", "propertyNames": names, "additionalProperties": _SERVER.schema()}


_SERVER = McpServerEntry()


def server_name_problem(name: object) -> str | None:
    """Why an MCP server cannot have this name."""
    if (
        isinstance(name, str)
        and name.strip()
        and len(name) <= _MAX_SERVER_NAME
        and name.isprintable()
    ):
        return None
    return f"a server's name is 1 to {_MAX_SERVER_NAME} printable characters"
