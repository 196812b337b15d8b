"""The application: resources, routes, errors, middleware, integrations.

Callers of `/a2a` and `/mcp` get JSON-RPC errors for invalid bodies. Authorization and rate errors
are HTTP errors, as for all other paths, because clients of these protocols check the status.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Any, Final

from fastapi import APIRouter, FastAPI
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from ekiden import __version__
from ekiden.api.administration import AuditApi, KeysApi, ReplicasApi, SettingsApi, WorkersApi
from ekiden.api.agents import AgentsApi
from ekiden.api.collaborations import CollaborationsApi
from ekiden.api.handoffs import HandoffsApi
from ekiden.api.inbox import InboxApi
from ekiden.api.local.administration import (
    LocalAudit,
    LocalKeys,
    LocalReplicas,
    LocalSettings,
    LocalWorkers,
)
from ekiden.api.local.agents import LocalAgents
from ekiden.api.local.collaborations import LocalCollaborations
from ekiden.api.local.handoffs import LocalHandoffs
from ekiden.api.local.inbox import LocalInbox
from ekiden.api.local.memory import LocalMemory
from ekiden.api.local.messages import LocalMessages
from ekiden.api.local.plans import LocalPlans
from ekiden.api.local.runs import LocalRuns
from ekiden.api.local.sessions import LocalSessions
from ekiden.api.local.state import LocalState
from ekiden.api.local.traces import LocalCosts, LocalTraces
from ekiden.api.memory import MemoryApi
from ekiden.api.messages import MessagesApi
from ekiden.api.plans import PlansApi
from ekiden.api.runs import RunsApi
from ekiden.api.sessions import SessionsApi
from ekiden.api.state import StateApi
from ekiden.api.traces import CostsApi, TracesApi
from ekiden.core.errors.server import UnknownParameter
from ekiden.project.service import Service
from ekiden.server import console, routes
from ekiden.server.access import Authorizer
from ekiden.server.answers import grouped, install_handlers, operation_id
from ekiden.server.authorization import KeyAuthorization, key_ring
from ekiden.server.configuration import ServerConfig
from ekiden.server.derived import router_of
from ekiden.server.lifespan import Lifespan, Standards, StandardsOnDemand
from ekiden.server.middleware.access_log import AccessLog, Measuring
from ekiden.server.middleware.admission import Authentication, ConcurrencyLimit, Origins, Shares
from ekiden.server.middleware.bodies import Bodies, Queries
from ekiden.server.middleware.repeats import Repeats
from ekiden.server.openapi import description
from ekiden.server.openapi.examples import TITLE
from ekiden.server.problems import Reshaping
from ekiden.server.streams import live
from ekiden.server.streams.live import Streams


def _add_middleware(app: FastAPI, config: ServerConfig, standards: Standards) -> None:
    """Put the middleware around the application, the innermost first.

    So every request is logged; host and origin are checked before anything else; the caller, its
    limits and the query are checked before the body is read, and the body before it is compared
    with an earlier request.
    """
    app.add_middleware(Repeats)
    app.add_middleware(Bodies, config=config)
    app.add_middleware(Queries)
    app.add_middleware(StandardsOnDemand, standards=standards)
    app.add_middleware(Shares, config=config)
    app.add_middleware(Authentication)
    app.add_middleware(ConcurrencyLimit, config=config)
    app.add_middleware(Origins, config=config)
    app.add_middleware(AccessLog)


ROUTERS: tuple[APIRouter, ...] = (
    router_of(AgentsApi, LocalAgents, tag="agents"),
    router_of(HandoffsApi, LocalHandoffs, tag="handoffs"),
    router_of(PlansApi, LocalPlans, tag="plans"),
    router_of(CollaborationsApi, LocalCollaborations, tag="collaborations"),
    router_of(RunsApi, LocalRuns, tag="runs", by_hand=routes.BY_HAND),
    router_of(SessionsApi, LocalSessions, tag="sessions"),
    router_of(TracesApi, LocalTraces, tag="traces"),
    router_of(AuditApi, LocalAudit, tag="audit"),
    router_of(SettingsApi, LocalSettings.of, tag="settings"),
    router_of(ReplicasApi, LocalReplicas, tag="mirror"),
    router_of(InboxApi, LocalInbox, tag="inbox"),
    router_of(MessagesApi, LocalMessages, tag="messages"),
    router_of(CostsApi, LocalCosts, tag="costs"),
    router_of(MemoryApi, LocalMemory, tag="memory"),
    router_of(StateApi, LocalState, tag="state"),
    router_of(WorkersApi, LocalWorkers, tag="workers"),
    router_of(KeysApi, LocalKeys, tag="keys"),
)

_A2A = re.compile(r"/a2a(?:/[^/:]+)?/?")
_MCP: Final = "/mcp"
_PARSE_ERROR: Final = -32700
_INVALID_REQUEST: Final = -32600


class RpcShape:
    """ASGI middleware, which answers an invalid body for A2A or MCP with a JSON-RPC error."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve the request, with errors in the format of its protocol."""
        if scope["type"] == "http" and scope["method"] == "POST":
            if scope["path"] == _MCP:
                send = Reshaping(send, _for_mcp)
            elif _A2A.fullmatch(scope["path"]):
                send = Reshaping(send, _for_a2a)
        await self._app(scope, receive, send)


def _for_mcp(status: int, problem: dict[str, Any]) -> tuple[int, Mapping[str, Any]] | None:
    return (
        _rpc_error(400 if status == 422 else status, problem) if _is_body(status, problem) else None
    )


def _for_a2a(status: int, problem: dict[str, Any]) -> tuple[int, Mapping[str, Any]] | None:
    return (
        _rpc_error(200 if status == 422 else status, problem) if _is_body(status, problem) else None
    )


def _is_body(status: int, problem: dict[str, Any]) -> bool:
    return status in (413, 422) and problem["code"] != UnknownParameter.code


def _rpc_error(status: int, problem: dict[str, Any]) -> tuple[int, Mapping[str, Any]]:
    number = _INVALID_REQUEST if status == 413 else _PARSE_ERROR
    error = {"code": number, "message": problem["detail"], "data": {"code": problem["code"]}}
    return status, {"jsonrpc": "2.0", "id": None, "error": error}


def create_app(
    service: Service, config: ServerConfig | None = None, *, gate: Authorizer | None = None
) -> FastAPI:
    """The ASGI application for `service`. The application opens the service at its start, and
    closes it at its end."""
    return application(Lifespan(service, config or ServerConfig()), gate=gate)


def application(parts: Lifespan, *, gate: Authorizer | None = None) -> FastAPI:
    """Create the application. Either its own lifespan or the caller runs `parts`."""
    service, config = parts.service, parts.config
    app = FastAPI(
        title=TITLE,
        version=__version__,
        description="Ekiden runs teams of agents that hand work to each other without losing it.",
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
    install_handlers(app)
    _add_middleware(app, config, parts.standards)
    app.router.routes.extend(_routes())
    parts.standards.install(app)
    app.add_middleware(RpcShape)
    app.add_middleware(Measuring, metrics=app.state.metrics)
    description.install(app)
    description.install_pages(app)
    console.install(app, config)
    return app


@cache
def _routes() -> tuple[BaseRoute, ...]:
    """The routes, shared by all applications of this process: a route is prepared only once."""
    return (
        *grouped(routes.health_router, prefix="", responses=None),
        *grouped(routes.metrics_router, prefix=""),
        *grouped(*ROUTERS, routes.router, live.router, routes.login_router),
    )
