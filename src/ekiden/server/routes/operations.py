"""Routes about the server: health checks, `/metrics` for Prometheus, and the console's login.

The figures cover all tenants. So only keys with the scope `admin` of the tenant `default`, the
operator's, see them; Prometheus sends one as a bearer token.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final, Literal

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import PlainTextResponse, Response

from ekiden import __version__
from ekiden.api.methods.endpoint import Scope
from ekiden.core.errors import EkidenError, StoreReadOnly, StoreUnavailable
from ekiden.core.errors.server import NotServed
from ekiden.project.stores import DEFAULT_TENANT
from ekiden.server.access.access import SCOPES, Caller, service_of
from ekiden.server.access.authorization import KeyAuthorization
from ekiden.server.access.cookies import csrf_token, forget_login, keep_login
from ekiden.server.answers import Administers, TheCaller, answer, problems
from ekiden.server.metrics import CONTENT_TYPE, Metrics
from ekiden.server.problems import problem_response

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


login_router = APIRouter(tags=["console"])


class LoginBody(BaseModel):
    """Request body for a login."""

    model_config = ConfigDict(extra="forbid")

    key: str = Field(
        min_length=1, max_length=200, description="A key, as `ekiden keys create` made it."
    )


class MeModel(BaseModel):
    """The caller, and the server."""

    name: str = Field(description="The name of the key; `local` for a local caller without a key.")
    tenant: str
    scopes: list[Scope] = Field(description="All scopes of the caller, sorted.")
    local: bool = Field(description="Whether the caller is on this machine, without a key.")
    csrf_token: str | None = Field(
        description="The value of `X-CSRF-Token` for requests with the cookie that change "
        "something; null without a cookie."
    )
    version: str = Field(description="The version of Ekiden.")
    console: bool = Field(description="Whether this server has the console at `/`.")


@login_router.post("/login", response_model=MeModel)
async def log_in(request: Request, body: LoginBody) -> Response:
    """Log a browser in. The browser keeps a token, not the key, in a cookie that no script can
    read.

    For one month, the cookie works like the key in a header. Logout, or revoking the key, ends this
    earlier. Requests that change something also need `X-CSRF-Token`.
    """
    caller, token = await _authorization(request).log_in(request, body.key.strip())
    request.state.caller = caller
    response = answer(_me(request, caller, csrf_token(token)))
    keep_login(response, token, request)
    return response


@login_router.post("/logout", status_code=204, response_class=Response)
async def log_out(caller: TheCaller, request: Request) -> Response:
    """End the browser's login. Copies of its cookie become invalid too. The key stays valid."""
    await _authorization(request).log_out(caller)
    response = Response(status_code=204)
    forget_login(response, request.headers)
    return response


@login_router.get("/me", response_model=MeModel)
async def get_me(caller: TheCaller, request: Request) -> Response:
    """Get the caller, and its scopes."""
    return answer(_me(request, caller, getattr(request.state, "csrf_token", None)))


def _authorization(request: Request) -> KeyAuthorization:
    found: KeyAuthorization = request.app.state.key_gate
    return found


def _me(request: Request, caller: Caller, token: str | None) -> dict[str, Any]:
    return {
        "name": caller.name,
        "tenant": caller.tenant,
        "scopes": sorted(scope for scope in SCOPES if caller.may(scope)),
        "local": caller.key_id is None,
        "csrf_token": token,
        "version": __version__,
        "console": request.app.state.has_console,
    }
