"""Kinds of settings with named entries, such as prices and servers, and checks of texts.

The check functions return the fault of a text, or `None` for a valid one. They contact nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from ipaddress import ip_address
from typing import Any, Final, TypeAlias

from ekiden.core.checks.addresses import parse_host, read_hosts, read_origins
from ekiden.core.checks.kinds import Number, shown_type, wrong
from ekiden.core.dataclass import dataclass
from ekiden.core.errors import UserError
from ekiden.core.text.names import full_model_name
from ekiden.core.text.wording import suggestion

_AMOUNT = Number(low=0, high=1e9)
_KEYS = ("input", "output", "cached_input")
_NEEDED = {"input", "output"}
_MAX_MODELS = 1_000
_MAX_NAME = 200
_MAX_SERVER_NAME = 100
_ADDRESSES = ("url", "httpUrl", "serverUrl")
"""The keys with which other tools write the address of a server."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """The prices of a million tokens, by model."""

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
    if not isinstance(value, Mapping) or not _NEEDED <= set(value) <= set(_KEYS):
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
    """An MCP server in the format of other tools; an unusable one is refused."""

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
    """The fault of the name of an MCP server."""
    if (
        isinstance(name, str)
        and name.strip()
        and len(name) <= _MAX_SERVER_NAME
        and name.isprintable()
    ):
        return None
    return f"a server's name is 1 to {_MAX_SERVER_NAME} printable characters"


Fault: TypeAlias = Callable[[str], str | None]

BUILT_IN_PROVIDERS: Final = ("anthropic", "demo", "google", "local", "openai", "openai-chat")
"""The built-in providers. Loading them to get their names would take longer than most commands."""


def model_fault(name: str) -> str | None:
    """The fault of a model name."""
    provider, colon, model = (full_model_name(name) or name).partition(":")
    if not (provider and colon and (model or provider == "local")):
        return "it does not name a model: write provider:model, such as openai:gpt-5-mini"
    return _url_fault(model)


def _url_fault(model: str) -> str | None:
    """The fault of the URL in a model name, if it has one."""
    _, at, address = model.partition("@http")
    if not at:
        return None
    from ekiden.models.registry import check_url

    return _refused(check_url, f"http{address}")


def unknown_provider(name: str) -> str | None:
    """The fault of a model whose provider is unknown."""
    provider = (full_model_name(name) or name).partition(":")[0]
    if provider in BUILT_IN_PROVIDERS:
        return None
    from ekiden.models import known_providers

    known = known_providers()
    if provider in known:
        return None
    return (
        f"no model provider is called {provider[:40]!r}; known: {', '.join(known)}"
        f"{suggestion(provider, known)}"
    )


def store_fault(url: str) -> str | None:
    """The fault of the address of a store."""
    from ekiden.project.stores import check_store_url

    return _refused(check_store_url, url)


def embedder_fault(name: str) -> str | None:
    """The fault of the name of an embedder."""
    from ekiden.embeddings.named import check_embedder_name

    return _refused(check_embedder_name, name) or _url_fault(name)


def address_fault(text: str) -> str | None:
    """The fault of an address to listen on."""
    try:
        ip_address(text.strip("[]"))
    except ValueError:
        host = parse_host(text)
        if host is None or host.port is not None:
            return "it is neither an address nor a host name; the port is server.port"
    return None


def host_fault(text: str) -> str | None:
    """The fault of a host name or pattern of the server."""
    return _refused(lambda each: read_hosts([each]), text)


def origin_fault(text: str) -> str | None:
    """The fault of the origin of a web page."""
    return _refused(lambda each: read_origins([each]), text)


def site_fault(text: str) -> str | None:
    """The fault of a host in the list of hosts that a tool may contact."""
    host = text.strip().partition("://")[2] or text.strip()
    if host == "*":
        return None
    try:
        plain = host.removeprefix("*.").encode("idna").decode("ascii")
    except UnicodeError:
        plain = ""
    if parse_host(plain) is None:
        return "it is not a host; write example.org, *.example.org or localhost:8080"
    return None


def _refused(check: Callable[[str], object], text: str) -> str | None:
    try:
        check(text)
    except UserError as exc:
        return str(exc).partition(": ")[2] if str(exc).startswith("server.") else str(exc)
    return None


FAULTS: Final[Mapping[str, Fault]] = {
    "model": model_fault,
    "agents.routing.llm.model": model_fault,
    "store": store_fault,
    "memory.embedding_model": embedder_fault,
    "server.host": address_fault,
    "server.hosts": host_fault,
    "server.origins": origin_fault,
    "tools.http_get.allow": site_fault,
}
"""The checks of texts, by the name of the setting."""
