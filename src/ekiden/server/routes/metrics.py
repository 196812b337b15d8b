"""`/metrics`: for Prometheus.

The figures cover all tenants. So only keys with the scope `admin` of the tenant `default`, the
operator's, see them; Prometheus sends one as a bearer token.
"""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import PlainTextResponse, Response

from ekiden.core.errors.server import NotServed
from ekiden.project.stores import DEFAULT_TENANT
from ekiden.server.access.access import service_of
from ekiden.server.access.dependencies import Administers
from ekiden.server.metrics.metrics import CONTENT_TYPE, Metrics
from ekiden.server.problems import problems

metrics_router = APIRouter(tags=["health"])


@metrics_router.get("/metrics", response_class=PlainTextResponse, responses=problems(404))
async def metrics(request: Request, desk: Administers) -> Response:
    """Get counters since the server's start, and current backlogs, in the format of Prometheus."""
    if desk.tenant != DEFAULT_TENANT:
        raise NotServed("there are no metrics here: only the operator of the server sees them")
    found: Metrics = request.app.state.metrics
    page = await found.collect(service_of(request).tenant_services.values())
    return Response(page, media_type=CONTENT_TYPE)
