"""MCP servers that this process speaks to: started here, or reached over HTTP; and the filters of
their tools."""

from __future__ import annotations

import asyncio
import inspect
import logging
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, Literal, NotRequired, Protocol, TypeAlias, TypeVar

from typing_extensions import TypedDict

from ekiden.compat.agents.exceptions import UserError
from ekiden.compat.agents.not_supported import placeholders


class HttpClientFactory(Protocol):
    """Makes the HTTP client for a server."""

    def __call__(self, headers: Any = None, timeout: Any = None, auth: Any = None) -> Any:
        """The client."""


@dataclass
class ToolFilterContext:
    """The argument of a tool filter: the agent and the server."""

    run_context: Any
    agent: Any
    server_name: str


class ToolFilterStatic(TypedDict):
    """Allowed and blocked tools, by name."""

    allowed_tool_names: NotRequired[list[str]]
    blocked_tool_names: NotRequired[list[str]]


ToolFilterCallable: TypeAlias = Callable[[ToolFilterContext, Any], Any]
ToolFilter: TypeAlias = ToolFilterCallable | ToolFilterStatic | None


@dataclass
class MCPToolMetaContext:
    """The argument of a metadata resolver: the tool call."""

    run_context: Any
    server_name: str
    tool_name: str
    arguments: dict[str, Any] | None


@dataclass
class MCPToolCustomDataContext:
    """The argument of a `custom_data_extractor`: the tool call."""

    run_context: Any
    server_name: str
    tool_name: str
    tool_display_name: str
    arguments: Mapping[str, Any]
    result_meta: Mapping[str, Any] | None
    structured_content: Mapping[str, Any] | None
    is_error: bool | None
    tool_output: Any


MCPToolMetaResolver: TypeAlias = Callable[[MCPToolMetaContext], Any]
MCPToolCustomDataExtractor: TypeAlias = Callable[[MCPToolCustomDataContext], Any]


def create_static_tool_filter(
    allowed_tool_names: list[str] | None = None, blocked_tool_names: list[str] | None = None
) -> ToolFilterStatic | None:
    """A tool filter by name; `None` if you pass no names."""
    wanted = ToolFilterStatic()
    if allowed_tool_names is not None:
        wanted["allowed_tool_names"] = allowed_tool_names
    if blocked_tool_names is not None:
        wanted["blocked_tool_names"] = blocked_tool_names
    return wanted or None


_log = logging.getLogger("ekiden.mcp")


T = TypeVar("T")
UNSET: Any = object()
"""What a tool says of its failure is left to the agent."""


class RequireApprovalToolList(TypedDict, total=False):
    """Tools by name."""

    tool_names: list[str]


class RequireApprovalObject(TypedDict, total=False):
    """Which tools need approval, and which do not."""

    always: RequireApprovalToolList
    never: RequireApprovalToolList


RequireApprovalPolicy: TypeAlias = Literal["always", "never"]
LocalMCPApprovalCallable: TypeAlias = Callable[[Any, Any, Any], Any]
RequireApprovalSetting: TypeAlias = (
    RequireApprovalPolicy | RequireApprovalObject | dict[str, Any] | bool | Any | None
)


class MCPServer(ABC):
    """Base class of MCP servers; `MCPServerStdio`, `MCPServerSse` and `MCPServerStreamableHttp`
    implement it."""

    def __init__(
        self,
        use_structured_content: bool = False,
        require_approval: RequireApprovalSetting = None,
        failure_error_function: Any = UNSET,
        tool_meta_resolver: MCPToolMetaResolver | None = None,
        custom_data_extractor: MCPToolCustomDataExtractor | None = None,
        *,
        tool_input_guardrails: list[Any] | None = None,
        tool_output_guardrails: list[Any] | None = None,
    ) -> None:
        self.use_structured_content = use_structured_content
        self.require_approval = require_approval
        self.failure_error_function = failure_error_function
        self.tool_meta_resolver = tool_meta_resolver
        self.custom_data_extractor = custom_data_extractor
        self.tool_input_guardrails = tool_input_guardrails
        self.tool_output_guardrails = tool_output_guardrails

    def needs_approval(self, tool: Any, agent: Any) -> bool | Callable[..., Any]:
        """Whether calls of a tool need approval: a bool, or a function of the call."""
        setting = self.require_approval
        if setting is None or isinstance(setting, bool):
            return bool(setting)
        if isinstance(setting, str):
            return setting == "always"
        if callable(setting):

            async def asked(context: Any, arguments: Any, call_id: str) -> bool:
                answer = setting(context, agent, tool)
                return bool(await answer if inspect.isawaitable(answer) else answer)

            return asked
        for policy in ("always", "never"):
            listed = setting.get(policy)
            if isinstance(listed, dict) and tool.name in (listed.get("tool_names") or ()):
                return policy == "always"
        return setting.get(tool.name) in (True, "always")

    @property
    @abstractmethod
    def name(self) -> str:
        """The name of the server."""

    @property
    def cached_tools(self) -> list[Any] | None:
        """The cached tools of the server, if any."""
        return None

    @abstractmethod
    async def connect(self) -> None:
        """Start the server or connect to it."""

    @abstractmethod
    async def cleanup(self) -> None:
        """Close the connection."""

    @abstractmethod
    async def list_tools(self, run_context: Any = None, agent: Any = None) -> list[Any]:
        """The tools of the server that the filter allows."""

    @abstractmethod
    async def call_tool(
        self, tool_name: str, arguments: dict[str, Any] | None, meta: dict[str, Any] | None = None
    ) -> Any:
        """Call a tool."""

    @abstractmethod
    async def list_prompts(self) -> Any:
        """The prompts of the server."""

    @abstractmethod
    async def get_prompt(self, name: str, arguments: dict[str, Any] | None = None) -> Any:
        """The prompt with this name, with its arguments filled in."""

    async def list_resources(self, cursor: str | None = None) -> Any:
        """The resources of the server. Raises `NotImplementedError` if the server has none."""
        raise NotImplementedError(f"MCP server {self.name!r} has no resources")

    async def list_resource_templates(self, cursor: str | None = None) -> Any:
        """The resource templates of the server. Raises `NotImplementedError` if the server has
        none."""
        raise NotImplementedError(f"MCP server {self.name!r} has no resources")

    async def read_resource(self, uri: str) -> Any:
        """One resource. Raises `NotImplementedError` if the server has none."""
        raise NotImplementedError(f"MCP server {self.name!r} has no resources")


class _Connected(MCPServer):
    """A server with a connection, which a task of its own opens and closes."""

    def __init__(
        self,
        params: Any,
        cache_tools_list: bool = False,
        name: str | None = None,
        client_session_timeout_seconds: float | None = 5,
        tool_filter: ToolFilter = None,
        use_structured_content: bool = False,
        max_retry_attempts: int = 0,
        retry_backoff_seconds_base: float = 1.0,
        message_handler: Any = None,
        require_approval: RequireApprovalSetting = None,
        failure_error_function: Any = UNSET,
        tool_meta_resolver: MCPToolMetaResolver | None = None,
        custom_data_extractor: MCPToolCustomDataExtractor | None = None,
        *,
        tool_input_guardrails: list[Any] | None = None,
        tool_output_guardrails: list[Any] | None = None,
    ) -> None:
        super().__init__(
            use_structured_content,
            require_approval,
            failure_error_function,
            tool_meta_resolver,
            custom_data_extractor,
            tool_input_guardrails=tool_input_guardrails,
            tool_output_guardrails=tool_output_guardrails,
        )
        self.params: dict[str, Any] = dict(params)
        self.cache_tools_list = cache_tools_list
        self.client_session_timeout_seconds = client_session_timeout_seconds
        self.tool_filter = tool_filter
        self.max_retry_attempts = max_retry_attempts
        self.retry_backoff_seconds_base = retry_backoff_seconds_base
        self.message_handler = message_handler
        self._name = name or self._default_name()
        self._client: Any = None
        self._tools: list[Any] | None = None
        self._over = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @abstractmethod
    def _default_name(self) -> str: ...

    @abstractmethod
    def create_streams(self) -> Any:
        """The transport, as a context manager."""

    @property
    def name(self) -> str:
        return self._name

    @property
    def cached_tools(self) -> list[Any] | None:
        return self._tools

    def invalidate_tools_cache(self) -> None:
        """Ask for the tools again next time."""
        self._tools = None

    async def __aenter__(self) -> Any:
        await self.connect()
        return self

    async def __aexit__(self, kind: Any, error: Any, traceback: Any) -> None:
        await self.cleanup()

    async def connect(self) -> None:
        if self._client is not None:
            return
        ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._over = asyncio.Event()
        # The library requires that the task that opens a connection also closes it.
        self._task = asyncio.create_task(self._keep(ready), name=f"mcp {self.name}")
        try:
            await ready
        except asyncio.CancelledError:
            self._task.cancel()
            await asyncio.wait({self._task})
            raise

    async def _keep(self, ready: asyncio.Future[None]) -> None:
        from mcp import Client

        try:
            async with AsyncExitStack() as stack:
                client = Client(
                    self.create_streams(),
                    cache=None,
                    read_timeout_seconds=self.client_session_timeout_seconds,
                    message_handler=self.message_handler,
                )
                self._client = await stack.enter_async_context(client)
                ready.set_result(None)
                await self._over.wait()
        except (Exception, BaseExceptionGroup) as error:
            if not ready.done():
                while isinstance(error, BaseExceptionGroup):
                    error = error.exceptions[0]
                failure = UserError(f"Failed to connect to MCP server '{self.name}': {error}")
                failure.__cause__ = error
                ready.set_exception(failure)
        finally:
            self._client = None
            if not ready.done():
                ready.cancel()

    async def cleanup(self) -> None:
        self._over.set()
        if self._task is not None:
            await asyncio.wait({self._task})
            self._task = None

    def _session(self) -> Any:
        if self._client is None:
            raise UserError("Server not initialized. Make sure you call `connect()` first.")
        return self._client

    async def _tried(self, call: Callable[[], Awaitable[T]]) -> T:
        """Call, and call again after failures as often as the settings say."""
        attempt = 0
        while True:
            try:
                return await call()
            except UserError:
                raise
            except Exception:
                attempt += 1
                if self.max_retry_attempts != -1 and attempt > self.max_retry_attempts:
                    raise
                await asyncio.sleep(self.retry_backoff_seconds_base * 2 ** (attempt - 1))

    async def _pages(self, call: Callable[..., Awaitable[Any]], what: str) -> list[Any]:
        """All pages of a list. Raises `UserError` if the server repeats a cursor."""
        pages: list[Any] = []
        cursors: list[str | None] = [None]
        while True:
            pages.append(await self._tried(partial(call, cursor=cursors[-1])))
            cursor = pages[-1].next_cursor
            if cursor is None:
                return pages
            if cursor in cursors:
                raise UserError(
                    f"MCP server '{self.name}' returned a repeated cursor while listing {what}."
                )
            cursors.append(cursor)

    async def list_tools(self, run_context: Any = None, agent: Any = None) -> list[Any]:
        session = self._session()
        if not self.cache_tools_list or self._tools is None:
            pages = await self._pages(session.list_tools, "tools")
            self._tools = [tool for page in pages for tool in page.tools]
        return await self._filtered(list(self._tools or ()), run_context, agent)

    async def _filtered(self, tools: list[Any], run_context: Any, agent: Any) -> list[Any]:
        wanted: Any = self.tool_filter
        if wanted is None:
            return tools
        if isinstance(wanted, dict):
            allowed, blocked = wanted.get("allowed_tool_names"), wanted.get("blocked_tool_names")
            passed = [each for each in tools if allowed is None or each.name in allowed]
            return [each for each in passed if each.name not in (blocked or ())]
        if run_context is None or agent is None:
            raise UserError("a tool filter that is a function needs the run's context and agent")
        context = ToolFilterContext(run_context=run_context, agent=agent, server_name=self.name)
        kept = []
        for tool in tools:
            try:
                answer = wanted(context, tool)
                answer = await answer if inspect.isawaitable(answer) else answer
            except Exception:  # A filter that fails lets nothing through.
                _log.exception("the filter of MCP server %r failed for %r", self.name, tool.name)
                continue
            if answer:
                kept.append(tool)
        return kept

    async def call_tool(
        self, tool_name: str, arguments: dict[str, Any] | None, meta: dict[str, Any] | None = None
    ) -> Any:
        session = self._session()
        for tool in self._tools or ():
            schema = getattr(tool, "input_schema", None) or {}
            if tool.name == tool_name and arguments is not None:
                missing = sorted(set(schema.get("required", ())) - set(arguments))
                if missing:
                    raise UserError(
                        f"Failed to call tool '{tool_name}' on MCP server '{self.name}': "
                        f"missing required parameters: {', '.join(missing)}"
                    )
        return await self._tried(lambda: session.call_tool(tool_name, arguments, meta=meta))

    async def list_prompts(self) -> Any:
        first, *rest = pages = await self._pages(self._session().list_prompts, "prompts")
        if not rest:
            return first
        prompts = [prompt for page in pages for prompt in page.prompts]
        return first.model_copy(update={"prompts": prompts, "next_cursor": None})

    async def get_prompt(self, name: str, arguments: dict[str, Any] | None = None) -> Any:
        return await self._session().get_prompt(name, arguments)

    async def list_resources(self, cursor: str | None = None) -> Any:
        return await self._session().list_resources(cursor=cursor)

    async def list_resource_templates(self, cursor: str | None = None) -> Any:
        return await self._session().list_resource_templates(cursor=cursor)

    async def read_resource(self, uri: str) -> Any:
        return await self._session().read_resource(uri)


class MCPServerStdioParams(TypedDict):
    """The program to start."""

    command: str
    args: NotRequired[list[str]]
    env: NotRequired[dict[str, str]]
    cwd: NotRequired[str | Path]
    encoding: NotRequired[str]
    encoding_error_handler: NotRequired[Literal["strict", "ignore", "replace"]]


class MCPServerStdio(_Connected):
    """A server that this process starts; it communicates over standard input and output."""

    def _default_name(self) -> str:
        return f"stdio: {self.params['command']}"

    def create_streams(self) -> Any:
        from mcp import StdioServerParameters, stdio_client

        return stdio_client(StdioServerParameters(**self.params))


class MCPServerSseParams(TypedDict):
    """The address of a server, and the connection options."""

    url: str
    headers: NotRequired[dict[str, str]]
    timeout: NotRequired[float]
    sse_read_timeout: NotRequired[float]
    auth: NotRequired[Any]
    httpx_client_factory: NotRequired[HttpClientFactory]


class MCPServerSse(_Connected):
    """A server over HTTP with server-sent events."""

    def _default_name(self) -> str:
        return f"sse: {self.params['url']}"

    def create_streams(self) -> Any:
        from mcp.client.sse import sse_client

        given = {"timeout": 5, "sse_read_timeout": 60 * 5, **self.params}
        return sse_client(**given)


class MCPServerStreamableHttpParams(TypedDict):
    """The address of a server, and the connection options."""

    url: str
    headers: NotRequired[dict[str, str]]
    timeout: NotRequired[timedelta | float]
    sse_read_timeout: NotRequired[timedelta | float]
    terminate_on_close: NotRequired[bool]
    httpx_client_factory: NotRequired[HttpClientFactory]
    auth: NotRequired[Any]
    ignore_initialized_notification_failure: NotRequired[bool]


class MCPServerStreamableHttp(_Connected):
    """A server over streamable HTTP."""

    def _default_name(self) -> str:
        return f"streamable_http: {self.params['url']}"

    @property
    def session_id(self) -> str | None:
        """The id of the connection, if the server and the transport provide it."""
        return getattr(self._client, "session_id", None)

    def create_streams(self) -> Any:
        from contextlib import asynccontextmanager

        import httpx2
        from mcp.client.streamable_http import streamable_http_client

        given = self.params
        wait, read = _seconds(given.get("timeout", 5)), _seconds(given.get("sse_read_timeout", 300))
        limits = httpx2.Timeout(wait, read=read)
        factory = given.get("httpx_client_factory")
        how: dict[str, Any] = {
            "headers": given.get("headers"),
            "timeout": limits,
            "auth": given.get("auth"),
        }

        @asynccontextmanager
        async def streams() -> Any:
            client = factory(**how) if factory else httpx2.AsyncClient(**how, follow_redirects=True)
            async with (
                client,
                streamable_http_client(
                    given["url"],
                    http_client=client,
                    terminate_on_close=given.get("terminate_on_close", True),
                ) as opened,
            ):
                yield opened

        return streams()


def _seconds(value: timedelta | float) -> float:
    return value.total_seconds() if isinstance(value, timedelta) else float(value)


GetSessionIdCallback: TypeAlias = Callable[[], str | None]
MCPStreamTransport: TypeAlias = tuple[Any, ...]
RequireApprovalMapping: TypeAlias = dict[str, Literal["always", "never"]]

__getattr__ = placeholders(__name__)
