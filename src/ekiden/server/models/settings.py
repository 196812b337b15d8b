"""Settings over HTTP."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, Field


class OriginModel(BaseModel):
    """Where a value comes from."""

    kind: Literal["default", "user", "project", "environment", "call"]
    where: str | None = Field(description="The file, or the environment variable.")
    line: int | None


class SettingModel(BaseModel):
    """A setting as it stands; secrets in it are covered."""

    key: str
    value: Any
    origin: OriginModel
