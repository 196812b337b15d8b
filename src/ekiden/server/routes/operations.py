"""Routes for operators: health checks, and `/metrics` for Prometheus.

The figures cover all tenants. So only keys with the scope `admin` of the tenant `default`, the
operator's, see them; Prometheus sends one as a bearer token.
"""

from __future__ import annotations

import asyncio
from typing import Final, Literal

from fastapi import APIRouter, Request
from pydantic import BaseModel, Field
from starlette.responses import PlainTextResponse, Response

from ekiden import __version__
from ekiden.core.errors import EkidenError, StoreReadOnly, StoreUnavailable
from ekiden.core.errors.server import NotServed
from ekiden.project.stores import DEFAULT_TENANT
from ekiden.server.access.access import service_of
from ekiden.server.access.dependencies import Administers
from ekiden.server.metrics.metrics import CONTENT_TYPE, Metrics
from ekiden.server.problems.handlers import problems
from ekiden.server.problems.responses import problem_response

router = APIRouter(tags=["health"])

_PATIENCE_S: Final = 5.0


class Health(BaseModel):
    """A heartbeat."""

    status: Literal["ok"]
    version: str = Field(description="The version of Ekiden.")


@router.get("/healthz", response_model=Health, responses=problems(422))
async def health() -> Health:
    """Check that the process runs. Nothing else is checked."""
    return Health(status="ok", version=__version__)


@router.get("/readyz", response_model=Health, responses=problems(422, 503))
async def readiness(request: Request) -> Health | Response:
    """Check that requests can be served: the store is writable, and the server is not stopping."""
    service = service_of(request)
    if service.is_stopping:
        return problem_response(503, "server.stopping", "the server is stopping")
    try:
        async with asyncio.timeout(_PATIENCE_S):
            desk = await service.tenant_service()
            await desk.check_writable()
    except StoreReadOnly as exc:
        return problem_response(503, exc.code, "the store is read-only")
    except EkidenError as exc:
        return problem_response(503, exc.code, "the store is not writable")
    except TimeoutError:
        return problem_response(503, StoreUnavailable.code, "the store does not answer")
    if not desk.is_working:
        return problem_response(503, "server.worker", "no worker runs sessions here any more")
    return Health(status="ok", version=__version__)


metrics_router = APIRouter(tags=["health"])


@metrics_router.get("/metrics", response_class=PlainTextResponse, responses=problems(404))
async def metrics(request: Request, desk: Administers) -> Response:
    """Get metrics in the format of Prometheus: counters since the server's start, and current
    backlogs."""
    if desk.tenant != DEFAULT_TENANT:
        raise NotServed("there are no metrics here: only the operator of the server sees them")
    found: Metrics = request.app.state.metrics
    page = await found.collect(service_of(request).tenant_services.values())
    return Response(page, media_type=CONTENT_TYPE)
