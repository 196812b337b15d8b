"""The application: routes, errors, and what every request goes through."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache
from typing import Any

from fastapi import APIRouter, FastAPI
from fastapi.routing import APIRoute
from starlette.routing import BaseRoute

from ekiden import __version__
from ekiden.app.service import Service
from ekiden.app.telemetry import Telemetry
from ekiden.server import console, problems, resources
from ekiden.server.access.access import Gate
from ekiden.server.access.gate import KeyGate, key_ring
from ekiden.server.agui import routes as agui
from ekiden.server.chores import Chores
from ekiden.server.configuration import ServerConfig
from ekiden.server.metrics.counting import Counting
from ekiden.server.metrics.metrics import Metrics
from ekiden.server.middleware import stack
from ekiden.server.middleware.measuring import Measuring
from ekiden.server.openai import catalog, chat, responses
from ekiden.server.openai.errors import EVERYWHERE as OPENAI_EVERYWHERE
from ekiden.server.openai.shaping import OpenAIShape
from ekiden.server.openapi import description, docs_page
from ekiden.server.openapi.examples import TITLE
from ekiden.server.routes import (
    events,
    health,
    login,
    metrics,
    runs,
)
from ekiden.server.rpc_shape import RpcShape
from ekiden.server.standards import add_standards, standards_running
from ekiden.server.streams.sse import Streams
from ekiden.server.tidying import tidy

API = "/api/v1"

_ROUTERS: tuple[APIRouter, ...] = (
    *resources.ROUTERS,
    runs.router,
    events.router,
    agui.router,
    login.router,
)
"""Under `/api/v1`."""


_OPENAI: tuple[APIRouter, ...] = (catalog.router, chat.router, responses.router)
"""Under `/v1`, where clients of OpenAI's interfaces look for them."""


def create_app(
    service: Service, config: ServerConfig | None = None, *, gate: Gate | None = None
) -> FastAPI:
    """The ASGI application over `service`, which is opened and closed with it."""
    config = config or ServerConfig()
    chores = Chores()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        counting, telemetry = Counting(app.state.metrics), Telemetry()
        service.each_desk(counting.watch)
        service.each_desk(telemetry.watch)
        service.each_desk(lambda desk: tidy(desk, chores))
        async with standards_running(app), service:
            try:
                yield
            finally:
                await telemetry.close()
                await counting.close()
                await chores.close()

    app = FastAPI(
        title=TITLE,
        version=__version__,
        description="Agents hand work to each other and never drop it.",
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        generate_unique_id_function=_operation_id,
    )
    app.state.service = service
    app.state.config = config
    app.state.metrics = Metrics()
    app.state.streams = Streams(
        app.state.metrics, most=config.max_streams, heartbeat_s=config.heartbeat_s
    )
    app.state.keyring = key_ring(service, chores)
    app.state.key_gate = KeyGate(app.state.keyring, config)
    app.state.gate = gate or app.state.key_gate
    problems.install(app)
    stack.install(app, config)
    app.add_middleware(OpenAIShape)
    app.add_middleware(RpcShape)
    app.add_middleware(Measuring, metrics=app.state.metrics)
    description.install(app)
    docs_page.install(app)
    console.install(app, config)
    app.router.routes.extend(_routes())
    add_standards(app)
    return app


@cache
def _routes() -> tuple[BaseRoute, ...]:
    """Those of every application of this process: the first request to a route prepares it."""
    root = APIRouter(generate_unique_id_function=_operation_id)
    root.include_router(health.router)
    root.include_router(metrics.router, responses=_EVERYWHERE)
    for router in _ROUTERS:
        root.include_router(router, prefix=API, responses=_EVERYWHERE)
    for router in _OPENAI:
        root.include_router(router, prefix="/v1", responses=OPENAI_EVERYWHERE)
    return tuple(root.routes)


_EVERYWHERE: dict[int | str, dict[str, Any]] = problems.problems(401, 403, 422, 429, 503)


def _operation_id(route: APIRoute) -> str:
    return route.name
