"""API keys over HTTP."""

from __future__ import annotations

from typing import Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

from ekiden.server.models.texts import KEY_NAME, TENANT

ScopeName: TypeAlias = Literal["read", "run", "answer", "admin"]


class KeyModel(BaseModel):
    """A key without its secret."""

    id: str
    name: str
    tenant: str
    scopes: list[ScopeName]
    status: Literal["active", "expired", "revoked"]
    created_at: float
    expires_at: float | None
    last_used_at: float | None
    revoked_at: float | None


class NewKeyModel(KeyModel):
    """A key that was just made."""

    key: str = Field(description="What callers send; it is stored nowhere and not shown again.")


class NewKeyBody(BaseModel):
    """A key to be made."""

    model_config = ConfigDict(extra="forbid")

    name: str = Field(min_length=1, max_length=100, pattern=KEY_NAME, description="Who has it.")
    scopes: list[ScopeName] = Field(min_length=1, max_length=4)
    tenant: str = Field(default="default", min_length=1, max_length=32, pattern=TENANT)
    expires_s: float | None = Field(default=None, gt=0, le=1e9, description="Good for so long.")
