"""The MCP server: listing and calling tools, over stdio and over streamable HTTP at `/mcp`."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from fastapi import FastAPI
from mcp import MCPError
from mcp.server import Server
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.context import ServerRequestContext
from mcp.server.stdio import stdio_server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp_types import (
    INVALID_PARAMS,
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
    Tool,
    ToolAnnotations,
)
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from pydantic import ValidationError
from starlette.requests import Request
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

from ekiden import __version__
from ekiden.core.current_agent import acting_agent
from ekiden.core.errors import EkidenError
from ekiden.core.errors.server import Forbidden, RequestInvalid, ServerStopping, TooManyRequests
from ekiden.core.values import dumps
from ekiden.integrations.mcp_server.calls import McpClient, ToolCallRequest, text_of_run
from ekiden.integrations.mcp_server.tools import OFFERS, OfferedTool
from ekiden.project.service import Service
from ekiden.server.access import Caller, caller_of, may_answer, service_of
from ekiden.server.problems import words_for

_log = logging.getLogger("ekiden.integrations.mcp_server")

Context: TypeAlias = ServerRequestContext[Any, Any]
FindClient: TypeAlias = Callable[[Context], Awaitable[McpClient]]
"""A function that returns the client that sent a request."""

_INSTRUCTIONS = (
    "A team of agents that hand work to each other durably. ask_team starts a conversation, "
    "continue_session continues one. A run with the status waiting needs a person's "
    "decision: show the person its questions; answer_inbox passes on what the person "
    "decided. A run with the status running continues by itself: get_run waits for it."
)


def make_server(service: Service, find_client: FindClient) -> Server[Any]:
    """Create a server. Each client sees only the tools that its scopes allow."""

    async def list_tools(
        context: Context, params: PaginatedRequestParams | None
    ) -> ListToolsResult:
        client = await find_client(context)
        return ListToolsResult(tools=[_tool(each) for each in OFFERS if client.may(each.scope)])

    async def call_tool(context: Context, params: CallToolRequestParams) -> CallToolResult:
        client = await find_client(context)
        offer = _BY_NAME.get(params.name)
        if offer is None:
            known = ", ".join(_BY_NAME)
            raise MCPError(
                INVALID_PARAMS, f"no tool is called {params.name[:80]!r}; known: {known}"
            )

        async def report(step: float, text: str) -> None:
            await context.session.report_progress(step, None, text)

        tenant = await service.tenant_service(client.caller.tenant)
        tool_call = ToolCallRequest(client=client, service=service, tenant=tenant, report=report)
        return await _call(offer, tool_call, params.arguments or {})

    return Server(
        "ekiden",
        version=__version__,
        title="Ekiden",
        instructions=_INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


_BY_NAME = {offer.name: offer for offer in OFFERS}


def _tool(offer: OfferedTool) -> Tool:
    return Tool(
        name=offer.name,
        title=offer.title,
        description=offer.description,
        input_schema=offer.arguments.model_json_schema(),
        output_schema=dict(offer.result),
        annotations=ToolAnnotations(
            title=offer.title,
            read_only_hint=offer.read_only,
            destructive_hint=offer.destructive,
            idempotent_hint=offer.idempotent or offer.read_only,
            open_world_hint=not offer.read_only,
        ),
    )


async def _call(
    offer: OfferedTool, tool_call: ToolCallRequest, given: dict[str, Any]
) -> CallToolResult:
    try:
        if not tool_call.client.may(offer.scope):
            raise Forbidden(offer.scope)
        result = await offer.call(tool_call, _parsed(offer, given))
    except EkidenError as exc:
        return _failed(exc.code, words_for(exc))
    except Exception:
        _log.exception("the tool %s failed", offer.name)
        return _failed("server.internal", "an internal error of Ekiden; see the server's log")
    # A session has the id of its run, too; only a run has questions.
    run = result if "questions" in result else result.get("run")
    text = text_of_run(run) if isinstance(run, dict) else None
    content = _text(dumps(result) if text is None else text)
    return CallToolResult(content=[content], structured_content=result)


def _parsed(offer: OfferedTool, given: dict[str, Any]) -> Any:
    try:
        return offer.arguments.model_validate(given)
    except ValidationError as exc:
        first = exc.errors()[0]
        where = ".".join(map(str, first["loc"])) or "arguments"
        raise RequestInvalid(f"{where}: {first['msg']}") from exc


def _failed(code: str, message: str) -> CallToolResult:
    error = {"error": {"code": code, "message": message}}
    return CallToolResult(
        content=[_text(f"{code}: {message}")], structured_content=error, is_error=True
    )


def _text(text: str) -> TextContent:
    return TextContent(type="text", text=text.encode("utf-8", "replace").decode("utf-8"))


async def serve_stdio(service: Service, caller: Caller) -> None:
    """Serve until the client closes standard input.

    If an agent of Ekiden started this process, the tool `answer_inbox` is not offered.
    """
    client = McpClient(caller=caller, may_answer=caller.may("answer") and acting_agent() is None)

    async def find(context: Context) -> McpClient:
        return client

    server = make_server(service, find)
    async with stdio_server() as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())


PATH: Final = "/mcp"
_CLIENT: Final = "ekiden.client"
_CHECK_S: Final = 1.0

IDLE_S: Final = 600.0
"""An MCP session is closed after this many seconds without a request."""
MOST_SESSIONS: Final = 5000
"""The maximum number of MCP sessions of all keys together."""
MOST_OF_A_KEY: Final = 200
"""The maximum number of MCP sessions of one key."""

_ID: Final = "mcp-session-id"
_VERSION: Final = "mcp-protocol-version"

WrapSend: TypeAlias = Callable[[Send], Send]


@dataclass(slots=True)
class _SessionUse:
    """The use of one MCP session."""

    requests: int = 0
    """The number of current requests."""
    ended_at: float = 0.0
    """When the last request ended."""


class SessionQuota:
    """Limits the number of MCP sessions of each key.

    The SDK does not report its sessions, so requests and responses are observed instead.
    """

    def __init__(
        self, *, most: int = MOST_OF_A_KEY, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._most = most
        self._monotonic = monotonic
        self._sessions: dict[str, dict[str, _SessionUse]] = {}
        """By caller, then by the id of the session."""

    @contextmanager
    def counted(self, caller: Caller, request: Request) -> Iterator[WrapSend]:
        """Count one request. Yields a wrapper of `send` that detects which session the request
        opened.

        Raises `TooManyRequests` if the request would open a session above the limit.
        """
        key = f"{caller.tenant}/{caller.id}"
        session_id = request.headers.get(_ID)
        if session_id is None and _opens(request):
            self._check(key)
        use = self._sessions.get(key, {}).get(session_id) if session_id is not None else None
        if use is not None:
            use.requests += 1

        def wrap(send: Send) -> Send:
            async def wrapped(message: Message) -> None:
                if message["type"] == "http.response.start":
                    self._observe(key, request, message)
                await send(message)

            return wrapped

        try:
            yield wrap
        finally:
            if use is not None:
                use.requests -= 1
                use.ended_at = self._monotonic()

    def _check(self, key: str) -> None:
        now = self._monotonic()
        # The SDK closes idle sessions by itself: they no longer count.
        open_sessions = {
            name: use
            for name, use in self._sessions.get(key, {}).items()
            if use.requests or now - use.ended_at < IDLE_S
        }
        if open_sessions:
            self._sessions[key] = open_sessions
        else:
            self._sessions.pop(key, None)
        if len(open_sessions) >= self._most:
            raise TooManyRequests(
                f"this key has {self._most} MCP sessions open: close some with DELETE",
                retry_after_s=60,
            )

    def _observe(self, key: str, request: Request, start: Message) -> None:
        session_id = request.headers.get(_ID)
        if session_id is not None:
            ended = request.method == "DELETE" and start["status"] < 300
            if ended or start["status"] == 404:
                self._sessions.get(key, {}).pop(session_id, None)
            return
        if start["status"] >= 400:
            return  # The response names a session, but the SDK has discarded it.
        for name, value in start.get("headers") or ():
            if name.lower() == _ID.encode():
                opened = self._sessions.setdefault(key, {})
                opened[value.decode("latin-1")] = _SessionUse(ended_at=self._monotonic())


def _opens(request: Request) -> bool:
    """Whether the SDK opens a session for a request without a session id. Newer versions of the
    protocol have no sessions."""
    version = request.headers.get(_VERSION)
    return version is None or version in HANDSHAKE_PROTOCOL_VERSIONS


class McpEndpoint:
    """Authenticates the caller, and passes the request to the SDK's transport.

    An MCP session belongs to the key that opened it. Other keys have no access to this session.
    """

    def __init__(self) -> None:
        self.manager: StreamableHTTPSessionManager | None = None
        """Set while the application runs."""
        self.quota = SessionQuota()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        caller = await caller_of(request)
        if self.manager is None:
            raise ServerStopping
        scope[_CLIENT] = McpClient(caller=caller, may_answer=may_answer(caller, request))
        token = AccessToken(
            token="", client_id=f"{caller.tenant}/{caller.id}", scopes=sorted(caller.scopes)
        )
        scope["user"] = AuthenticatedUser(token)
        with self.quota.counted(caller, request) as wrap:
            answer = self.manager.handle_request(scope, receive, wrap(send))
            if scope["method"] == "GET":
                await _until_stopping(answer, service_of(request))
            else:
                await answer


async def _until_stopping(answer: Coroutine[Any, Any, None], service: Service) -> None:
    """Answer a GET, which only streams notifications, until the server stops. Without this, a
    stopping server would wait for the client to disconnect."""
    task = asyncio.ensure_future(answer)
    try:
        while not task.done() and not service.is_stopping:
            await asyncio.wait({task}, timeout=_CHECK_S)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def _client(context: Context) -> McpClient:
    request: Any = context.request
    client: McpClient = request.scope[_CLIENT]
    return client


def install(app: FastAPI) -> None:
    """Add the endpoint to the application."""
    app.state.mcp = McpEndpoint()
    app.router.routes.append(Route(PATH, app.state.mcp, methods=["GET", "POST", "DELETE"]))


@asynccontextmanager
async def running(app: FastAPI) -> AsyncIterator[None]:
    """A context manager. The endpoint answers requests while this context is open.

    The task group of the SDK's manager is entered in a separate task, because otherwise an
    exception of the application would become an exception group.
    """
    ready, closing = asyncio.Event(), asyncio.Event()
    task = asyncio.create_task(_run_manager(app, ready, closing), name="ekiden-mcp")
    try:
        await ready.wait()
        yield
    finally:
        closing.set()
        await task


async def _run_manager(app: FastAPI, ready: asyncio.Event, closing: asyncio.Event) -> None:
    endpoint: McpEndpoint = app.state.mcp
    server = make_server(app.state.service, _client)
    manager = StreamableHTTPSessionManager(
        server,
        max_request_body_size=app.state.config.max_body,
        session_idle_timeout=IDLE_S,
        max_sessions=MOST_SESSIONS,
    )
    async with manager.run():
        endpoint.manager = manager
        ready.set()
        await closing.wait()
        endpoint.manager = None
