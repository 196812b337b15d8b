"""`/login`, `/logout`, `/me`: the console's login, and its user."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from ekiden import __version__
from ekiden.api.methods.endpoint import Scope
from ekiden.server.access.access import SCOPES, Caller
from ekiden.server.access.authorization import KeyAuthorization
from ekiden.server.access.cookies import csrf_token, forget_login, keep_login
from ekiden.server.access.dependencies import TheCaller
from ekiden.server.answers import answer

router = APIRouter(tags=["console"])


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


@router.post("/login", response_model=MeModel)
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


@router.post("/logout", status_code=204, response_class=Response)
async def log_out(caller: TheCaller, request: Request) -> Response:
    """End the browser's login. Copies of its cookie become invalid too. The key stays valid."""
    await _authorization(request).log_out(caller)
    response = Response(status_code=204)
    forget_login(response, request.headers)
    return response


@router.get("/me", response_model=MeModel)
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
