"""The application: routes, errors, middleware, integrations.

Callers of `/a2a` and `/mcp` get JSON-RPC errors for invalid bodies. Authorization and rate errors
are HTTP errors as everywhere: clients of both protocols check the status.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Any, Final

from fastapi import FastAPI
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from ekiden import __version__
from ekiden.core.errors.server import UnknownParameter
from ekiden.project.service import Service
from ekiden.server import console, problems
from ekiden.server.access.access import Authorizer
from ekiden.server.access.authorization import KeyAuthorization, key_ring
from ekiden.server.configuration import ServerConfig
from ekiden.server.lifespan import Lifespan
from ekiden.server.middleware.error_formats import Reshaping
from ekiden.server.middleware.request_metrics import Measuring
from ekiden.server.middleware.stack import _add_middleware
from ekiden.server.openapi import description, docs_page
from ekiden.server.openapi.examples import TITLE
from ekiden.server.resources import ROUTERS
from ekiden.server.route_groups import grouped, operation_id
from ekiden.server.routes import events, health, login, metrics, runs
from ekiden.server.streams.sse import Streams

_A2A = re.compile(r"/a2a(?:/[^/:]+)?/?")
_MCP: Final = "/mcp"
_PARSE_ERROR: Final = -32700
_INVALID_REQUEST: Final = -32600


class RpcShape:
    """ASGI middleware: a body that cannot be read is an error of JSON-RPC."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] == "http" and scope["method"] == "POST":
            if scope["path"] == _MCP:
                send = Reshaping(send, _for_mcp)
            elif _A2A.fullmatch(scope["path"]):
                send = Reshaping(send, _for_a2a)
        await self._app(scope, receive, send)


def _for_mcp(status: int, problem: dict[str, Any]) -> tuple[int, Mapping[str, Any]] | None:
    return _told(400 if status == 422 else status, problem) if _is_body(status, problem) else None


def _for_a2a(status: int, problem: dict[str, Any]) -> tuple[int, Mapping[str, Any]] | None:
    return _told(200 if status == 422 else status, problem) if _is_body(status, problem) else None


def _is_body(status: int, problem: dict[str, Any]) -> bool:
    return status in (413, 422) and problem["code"] != UnknownParameter.code


def _told(status: int, problem: dict[str, Any]) -> tuple[int, Mapping[str, Any]]:
    number = _INVALID_REQUEST if status == 413 else _PARSE_ERROR
    error = {"code": number, "message": problem["detail"], "data": {"code": problem["code"]}}
    return status, {"jsonrpc": "2.0", "id": None, "error": error}


def create_app(
    service: Service, config: ServerConfig | None = None, *, gate: Authorizer | None = None
) -> FastAPI:
    """The ASGI application over `service`, which is opened and closed with it."""
    return application(Lifespan(service, config or ServerConfig()), gate=gate)


def application(parts: Lifespan, *, gate: Authorizer | None = None) -> FastAPI:
    """The application; its own lifespan, or the caller, runs `parts`."""
    service, config = parts.service, parts.config
    app = FastAPI(
        title=TITLE,
        version=__version__,
        description="Agents hand work to each other and never drop it.",
        lifespan=lambda _: parts.running(),
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        generate_unique_id_function=operation_id,
    )
    app.state.service = service
    app.state.config = config
    app.state.metrics = parts.metrics
    app.state.standards = parts.standards
    app.state.streams = Streams(
        app.state.metrics, most=config.max_streams, heartbeat_s=config.heartbeat_s
    )
    app.state.keyring = key_ring(service, parts.background)
    app.state.key_gate = KeyAuthorization(app.state.keyring, config)
    app.state.gate = gate or app.state.key_gate
    problems.install(app)
    _add_middleware(app, config, parts.standards)
    app.router.routes.extend(_routes())
    parts.standards.install(app)
    app.add_middleware(RpcShape)
    app.add_middleware(Measuring, metrics=app.state.metrics)
    description.install(app)
    docs_page.install(app)
    console.install(app, config)
    return app


@cache
def _routes() -> tuple[BaseRoute, ...]:
    """Those of every application of this process: the first request to a route prepares it."""
    return (
        *grouped(health.router, prefix="", responses=None),
        *grouped(metrics.router, prefix=""),
        *grouped(*ROUTERS, runs.router, events.router, login.router),
    )
