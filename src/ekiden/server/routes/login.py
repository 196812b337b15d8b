"""`/login`, `/logout`, `/me`: how the console gets in, and as whom."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from ekiden import __version__
from ekiden.api.endpoint import Scope
from ekiden.server.access.access import SCOPES, Caller, TheCaller
from ekiden.server.access.authorization import KeyAuthorization
from ekiden.server.access.cookies import csrf_token, forget_login, keep_login
from ekiden.server.answers import answer

router = APIRouter(tags=["console"])


class LoginBody(BaseModel):
    """Who wants to be let in."""

    model_config = ConfigDict(extra="forbid")

    key: str = Field(
        min_length=1, max_length=200, description="A key, as `ekiden keys create` made it."
    )


class MeModel(BaseModel):
    """Whoever calls, and where."""

    name: str = Field(description="Of the key; `local` for somebody on this machine without one.")
    tenant: str
    scopes: list[Scope] = Field(description="All that the caller may do, sorted.")
    local: bool = Field(description="Whether it is somebody on this machine, without a key.")
    csrf_token: str | None = Field(
        description="What requests with the cookie that change something send as `X-CSRF-Token`; "
        "null where no cookie is used."
    )
    version: str = Field(description="Of Ekiden.")
    console: bool = Field(description="Whether this server has the console at `/`.")


@router.post("/login", response_model=MeModel)
async def log_in(request: Request, body: LoginBody) -> Response:
    """Log a browser in: it keeps a token in a cookie that no script can read, and not the key.

    For a month, until it logs out or the key is revoked, the cookie is as good as the key in a
    header, but what is not merely read needs `X-CSRF-Token` beside it.
    """
    caller, token = await _gate(request).log_in(request, body.key.strip())
    request.state.caller = caller
    response = answer(_me(request, caller, csrf_token(token)))
    keep_login(response, token, request)
    return response


@router.post("/logout", status_code=204, response_class=Response)
async def log_out(caller: TheCaller, request: Request) -> Response:
    """End the login of the browser, also if somebody copied its cookie; the key stays good."""
    await _gate(request).log_out(caller)
    response = Response(status_code=204)
    forget_login(response, request.headers)
    return response


@router.get("/me", response_model=MeModel)
async def get_me(caller: TheCaller, request: Request) -> Response:
    """Say who calls, and what that one may do."""
    return answer(_me(request, caller, getattr(request.state, "csrf_token", None)))


def _gate(request: Request) -> KeyAuthorization:
    gate: KeyAuthorization = request.app.state.key_gate
    return gate


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
