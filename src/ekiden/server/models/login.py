"""Who is logged in, over HTTP."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from ekiden.api.endpoint import Scope


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
