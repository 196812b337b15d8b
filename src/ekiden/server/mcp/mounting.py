"""MCP over streamable HTTP, at `/mcp`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any, Final

from fastapi import FastAPI
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.requests import Request
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from ekiden.app.service import Service
from ekiden.core.errors.server import ServerStopping
from ekiden.server.access.access import caller_of, service_of
from ekiden.server.access.acting import may_answer
from ekiden.server.mcp.guests import IDLE_S, MOST_SESSIONS, Guests
from ekiden.server.mcp.serving import Context, make_server
from ekiden.server.mcp.visit import Visitor

PATH: Final = "/mcp"
_VISITOR: Final = "ekiden.visitor"
_LOOK_S: Final = 1.0


class McpEndpoint:
    """Lets a caller in, and hands the request to the SDK's transport.

    An MCP session belongs to the key that opened it: with another it is not found.
    """

    def __init__(self) -> None:
        self.manager: StreamableHTTPSessionManager | None = None
        """There as long as the application runs."""
        self.guests = Guests()

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
        with self.guests.visit(caller, request) as note:
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


def add_mcp(app: FastAPI) -> None:
    """Add the endpoint to the application."""
    app.state.mcp = McpEndpoint()
    app.router.routes.append(Route(PATH, app.state.mcp, methods=["GET", "POST", "DELETE"]))


@asynccontextmanager
async def mcp_running(app: FastAPI) -> AsyncIterator[None]:
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
