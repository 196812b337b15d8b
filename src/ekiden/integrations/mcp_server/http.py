"""MCP over streamable HTTP, at `/mcp`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from fastapi import FastAPI
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from starlette.requests import Request
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

from ekiden.core.errors.server import ServerStopping, TooManyRequests
from ekiden.integrations.mcp_server.server import Context, make_server
from ekiden.integrations.mcp_server.tools import Visitor
from ekiden.project.service import Service
from ekiden.server.access.access import Caller, caller_of, may_answer, service_of

PATH: Final = "/mcp"
_VISITOR: Final = "ekiden.visitor"
_LOOK_S: Final = 1.0

IDLE_S: Final = 600.0
"""After so long without a request a session is closed."""
MOST_SESSIONS: Final = 5000
"""Of all keys together."""
MOST_OF_A_KEY: Final = 200

_ID: Final = "mcp-session-id"
_VERSION: Final = "mcp-protocol-version"

Noting: TypeAlias = Callable[[Send], Send]


@dataclass(slots=True)
class _Stay:
    """One session of a key."""

    requests: int = 0
    """Under way now."""
    at: float = 0.0
    """When the last one was over."""


class SessionQuota:
    """Knows the sessions of each key by what is asked and answered."""

    def __init__(
        self, *, most: int = MOST_OF_A_KEY, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._most = most
        self._monotonic = monotonic
        self._stays: dict[str, dict[str, _Stay]] = {}
        """By caller, then by the session's id."""

    @contextmanager
    def counted(self, caller: Caller, request: Request) -> Iterator[Noting]:
        """One request; `TooManyRequests` if it would open a session too many. What is given
        wraps the answer, to see which session was opened."""
        who = f"{caller.tenant}/{caller.id}"
        named = request.headers.get(_ID)
        if named is None and _opens(request):
            self._check(who)
        stay = self._stays.get(who, {}).get(named) if named is not None else None
        if stay is not None:
            stay.requests += 1
        try:
            yield lambda send: self._noting(who, request, send)
        finally:
            if stay is not None:
                stay.requests -= 1
                stay.at = self._monotonic()

    def _check(self, who: str) -> None:
        now = self._monotonic()
        left = {
            name: stay
            for name, stay in self._stays.get(who, {}).items()
            if stay.requests or now - stay.at < IDLE_S
        }
        if left:
            self._stays[who] = left
        else:
            self._stays.pop(who, None)
        if len(left) >= self._most:
            raise TooManyRequests(
                f"this key has {self._most} MCP sessions open: close some with DELETE",
                retry_after_s=60,
            )

    def _noting(self, who: str, request: Request, send: Send) -> Send:
        async def noted(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._note(who, request, message)
            await send(message)

        return noted

    def _note(self, who: str, request: Request, start: Message) -> None:
        named = request.headers.get(_ID)
        if named is not None:
            ended = request.method == "DELETE" and start["status"] < 300
            if ended or start["status"] == 404:
                self._stays.get(who, {}).pop(named, None)
            return
        for name, value in start.get("headers") or ():
            if name.lower() == _ID.encode():
                opened = self._stays.setdefault(who, {})
                opened[value.decode("latin-1")] = _Stay(at=self._monotonic())


def _opens(request: Request) -> bool:
    """Whether the SDK opens a session for a request that names none: newer versions have none."""
    version = request.headers.get(_VERSION)
    return version is None or version in HANDSHAKE_PROTOCOL_VERSIONS


class McpEndpoint:
    """Lets a caller in, and hands the request to the SDK's transport.

    An MCP session belongs to the key that opened it: with another it is not found.
    """

    def __init__(self) -> None:
        self.manager: StreamableHTTPSessionManager | None = None
        """There as long as the application runs."""
        self.guests = SessionQuota()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        caller = await caller_of(request)
        if self.manager is None:
            raise ServerStopping
        scope[_VISITOR] = Visitor(caller=caller, may_answer=may_answer(caller, request))
        token = AccessToken(
            token="", client_id=f"{caller.tenant}/{caller.id}", scopes=sorted(caller.scopes)
        )
        scope["user"] = AuthenticatedUser(token)
        with self.guests.counted(caller, request) as note:
            await self._answer(scope, receive, note(send), service_of(request))

    async def _answer(self, scope: Scope, receive: Receive, send: Send, service: Service) -> None:
        assert self.manager is not None
        answering = self.manager.handle_request(scope, receive, send)
        if scope["method"] == "GET":
            await _until_stopping(answering, service)
        else:
            await answering


async def _until_stopping(answering: Coroutine[Any, Any, None], service: Service) -> None:
    """A stream that only shows: it ends with the server, which would wait for it otherwise."""
    task = asyncio.ensure_future(answering)
    try:
        while not task.done() and not service.is_stopping:
            await asyncio.wait({task}, timeout=_LOOK_S)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def _visitor(context: Context) -> Visitor:
    request: Any = context.request
    visitor: Visitor = request.scope[_VISITOR]
    return visitor


def install(app: FastAPI) -> None:
    """Add the endpoint to the application."""
    app.state.mcp = McpEndpoint()
    app.router.routes.append(Route(PATH, app.state.mcp, methods=["GET", "POST", "DELETE"]))


@asynccontextmanager
async def running(app: FastAPI) -> AsyncIterator[None]:
    """As long as this is open, the endpoint answers.

    The SDK's sessions live in a task of their own, so that what goes wrong around them is not
    wrapped into a group of errors.
    """
    ready, over = asyncio.Event(), asyncio.Event()
    keeping = asyncio.create_task(_keep(app, ready, over), name="ekiden-mcp")
    try:
        await ready.wait()
        yield
    finally:
        over.set()
        await keeping


async def _keep(app: FastAPI, ready: asyncio.Event, over: asyncio.Event) -> None:
    endpoint: McpEndpoint = app.state.mcp
    server = make_server(app.state.service, _visitor)
    manager = StreamableHTTPSessionManager(
        server,
        max_request_body_size=app.state.config.max_body,
        session_idle_timeout=IDLE_S,
        max_sessions=MOST_SESSIONS,
    )
    async with manager.run():
        endpoint.manager = manager
        ready.set()
        await over.wait()
        endpoint.manager = None
