"""All settings, each declared once with its name, type, default, limits and description, and the
kinds of their values.

The check functions return the fault of a text, or `None` for a valid text. They make no network
request.

The key in a file, the environment variable, the validation, the JSON Schema and the tables of the
documentation follow from the fields here and in the classes that they name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from ipaddress import ip_address
from typing import Annotated, Any, Final, TypeAlias

from ekiden.core.checks.addresses import parse_host, read_hosts, read_origins
from ekiden.core.checks.fields import Checked
from ekiden.core.checks.kinds import Allowed, Number, shown_type, wrong
from ekiden.core.conversation.messages import BusLimits
from ekiden.core.dataclass import dataclass
from ekiden.core.errors import UserError
from ekiden.core.text.wording import full_model_name, suggestion
from ekiden.inbox.items import InboxSettings
from ekiden.project.stores import DEFAULT_STORE, check_store_url
from ekiden.routing.settings import RoutingSettings
from ekiden.sessions.replica import ReplicaSettings
from ekiden.sessions.session import Retention
from ekiden.tools.settings import ToolSettings

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
        f"has a model with an invalid name: a name has 1 to {_MAX_NAME} printable characters"
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
    """An MCP server in the format of other tools. An unusable entry is refused."""

    expects: str = 'an object with "command" or "url", or null'

    def read(self, value: object) -> object:
        if value is None:
            return None
        if not isinstance(value, Mapping):
            raise wrong(self.expects, value)
        from ekiden.tools.mcp_servers import server_problems

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

    return _refused(check_store_url, url)


def embedder_fault(name: str) -> str | None:
    """The fault of the name of an embedder."""
    from ekiden.embeddings.base import check_embedder_name

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


SERVERS = "mcpServers"
"""The key of `Settings.mcp_servers` in files; other tools use the same key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentsSettings(Checked):
    """`agents`: the sources of agents, and routing."""

    foreign_user_folders: bool = False
    """Whether to load other programs' agent files from the home folder (``~/.claude/agents`` …)."""
    routing: RoutingSettings = field(default_factory=RoutingSettings)


@dataclass(frozen=True, slots=True, kw_only=True)
class HandoffSettings(Checked):
    """`handoffs`: rules for the handoffs of every run."""

    depth: Annotated[int | None, Allowed(low=0, high=1000)] = 5
    """The maximum number of handoffs in one run. Further handoffs are refused. With null there is
    no limit."""
    escalate_to: Annotated[str | None, Allowed(what="a role's name")] = None
    """The role of the people who are notified when a handoff is rolled back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitSettings(Checked):
    """`limits`: the limits of runs. With null there is no limit."""

    turns: Annotated[int | None, Allowed(low=1, high=1_000_000)] = 10
    """The maximum number of turns of a run without its own limit (`--max-turns`)."""
    tokens: Annotated[int | None, Allowed(low=1, high=1_000_000_000_000)] = None
    """The maximum number of tokens of a run without its own limit."""
    money: Annotated[float | None, Allowed(low=1e-9)] = None
    """The maximum cost of the model calls of a run without its own limit."""
    seconds: Annotated[float | None, Allowed(low=0.001)] = None
    """The maximum working time, in seconds, of a run without its own limit."""
    model_seconds: Annotated[float, Allowed(low=0.001)] = 120.0
    """The timeout of one model call, in seconds. A local model on a slow machine needs more."""
    agents: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """The budget of an agent in one run, by the agent's name. This budget replaces the budget in
    the agent's file."""
    tenants: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """The daily budget for all runs of a tenant together, by the tenant's name. The name `*` sets
    the budget of each tenant that is not listed. A day begins at midnight UTC."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalModelSettings(Checked):
    """`local`: the model in this process."""

    model: Annotated[str | None, Allowed(what="a GGUF file", risk="loads this model file")] = None
    """The file of the local model; null uses the best model that is found on this machine."""
    context: Annotated[int, Allowed(low=256, high=1_048_576, env="EKIDEN_LOCAL_CTX")] = 4096
    """The context length of the local model, in tokens."""
    threads: Annotated[int | None, Allowed(low=1, high=1024)] = None
    """The number of threads for the local model; null uses one thread per idle core."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryDefaults(Checked):
    """`memory`: the defaults of memory search."""

    embedding_model: Annotated[
        str,
        Allowed(
            what="local, hashing, openai:MODEL or gemini:MODEL",
            env="EKIDEN_EMBEDDING_MODEL",
            risk="sends what agents remember to this address",
        ),
    ] = "local"
    """The embedding model for memories of the type `vector`. After a change of this setting, these
    memories are embedded again."""
    dimension: Annotated[int | None, Allowed(low=1, high=4096)] = None
    """The number of dimensions of an embedding; null uses the model's default."""
    top_k: Annotated[int, Allowed(low=1, high=100)] = 5
    """The maximum number of search results. An agent file can set another number."""
    similarity_threshold: Annotated[float | None, Allowed(high=1)] = None
    """The minimum similarity of search results; null uses the default of the memory type."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatSettings(Checked):
    """`chat`: settings of `ekiden chat`."""

    history: Annotated[int, Allowed(high=100_000)] = 1000
    """The maximum number of lines in the history of `ekiden chat`."""
    markdown: bool = True
    """Whether answers are drawn as Markdown on a terminal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings(Checked):
    """`server`: settings of `ekiden serve`."""

    host: Annotated[str, Allowed(what="an address or a name", env="EKIDEN_HOST")] = "127.0.0.1"
    """The address that `ekiden serve` listens on. Callers on other machines need an API key."""
    port: Annotated[int, Allowed(high=65535, env="EKIDEN_PORT")] = 8321
    """The port that `ekiden serve` listens on; 0 picks a free port."""
    hosts: Annotated[
        tuple[str, ...],
        Allowed(
            what="names, patterns and networks",
            risk="lets pages under these names call your server",
        ),
    ] = ()
    """The host names that the server accepts, besides localhost and `server.host`. An entry is a
    name, a pattern such as *.example.com, or a network such as 10.0.0.0/8."""
    origins: Annotated[
        tuple[str, ...], Allowed(what="origins", risk="lets these pages call your server")
    ] = ()
    """The origins of other websites that may call the server, such as https://desk.example.com."""
    allow_local: bool = True
    """Whether callers on this machine can use the server without an API key until the first key is
    created."""
    rate: Annotated[float, Allowed(high=100_000)] = 50.0
    """The average number of requests per second that one key may send. With 0, neither requests nor
    wrong keys are limited."""
    burst: Annotated[int, Allowed(low=1, high=1_000_000)] = 200
    """The number of requests that one key may send at once."""
    wrong_keys: Annotated[int, Allowed(high=1_000_000)] = 30
    """The number of wrong keys that one address may send per minute. 0 means no limit."""
    max_body: Annotated[int, Allowed(low=1)] = 10_000_000
    """The maximum size of a request body, in bytes."""
    max_requests: Annotated[int, Allowed(low=1, high=1_000_000)] = 10_000
    """The maximum number of concurrent requests. Further requests are refused with the header
    `Retry-After`."""
    max_streams: Annotated[int, Allowed(low=1, high=1_000_000)] = 5000
    """The maximum number of concurrent streams and WebSockets."""
    max_key_requests: Annotated[int, Allowed(high=1_000_000)] = 0
    """The maximum number of concurrent requests with one key. 0 means a quarter of
    `server.max_requests`, but at least 50."""
    max_key_streams: Annotated[int, Allowed(high=1_000_000)] = 0
    """The maximum number of concurrent streams and WebSockets with one key. 0 means a quarter of
    `server.max_streams`, but at least 50."""
    max_connections: Annotated[int, Allowed(low=1, high=1_000_000)] = 20_000
    """The maximum number of concurrent connections. Further connections are closed at once."""
    console: bool = True
    """Whether the web console is served at `/`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings(Checked):
    """All settings, merged from the files, the environment and the arguments of the call."""

    model: Annotated[
        str | None, Allowed(what="provider:model", risk="sends conversations to this address")
    ] = None
    """The model of agents without a model of their own."""
    store: Annotated[
        str,
        Allowed(
            what="a path, sqlite:///path, postgresql://… or memory:",
            risk="connects to this database",
        ),
    ] = DEFAULT_STORE
    """The address of the session store."""
    team: Annotated[
        str | None,
        Allowed(what="module:attribute", form=r"[\w.]+:[\w.]+", risk="imports this code"),
    ] = None
    """A team in Python, instead of agent files."""
    app: Annotated[str, Allowed(what="a name")] = "ekiden"
    """The name of the app. Each app has its own memories and state."""
    user: Annotated[str | None, Allowed(what="a user's id")] = None
    """The user for whom commands run. With null, commands run without a user and cannot reach any
    user's memories."""
    prices: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """The price of one million tokens, by model. Other models have the prices of the built-in list,
    which is in the extra `prices`."""
    agents: AgentsSettings = field(default_factory=AgentsSettings)
    handoffs: HandoffSettings = field(default_factory=HandoffSettings)
    limits: LimitSettings = field(default_factory=LimitSettings)
    bus: BusLimits = field(default_factory=BusLimits)
    tools: ToolSettings = field(default_factory=ToolSettings)
    mcp_servers: Annotated[Mapping[str, Mapping[str, Any]], Allowed(env="EKIDEN_MCP_SERVERS")] = (
        field(default_factory=dict)
    )
    """MCP servers by name, in the format that other programs also use. The value null removes a
    server."""
    local: LocalModelSettings = field(default_factory=LocalModelSettings)
    inbox: InboxSettings = field(default_factory=InboxSettings)
    memory: MemoryDefaults = field(default_factory=MemoryDefaults)
    chat: ChatSettings = field(default_factory=ChatSettings)
    server: ServerSettings = field(default_factory=ServerSettings)
    retention: Retention = field(default_factory=Retention)
    mirror: ReplicaSettings = field(default_factory=ReplicaSettings)
