"""Costs over HTTP."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field

CostKeyName = Literal["agent", "model", "session", "day"]


class CostLineModel(BaseModel):
    """What some calls used; `agent`, `model`, `session` and `day` as far as they have them in
    common."""

    agent: str | None = None
    model: str | None = None
    session: str | None = None
    day: str | None = Field(default=None, description="In UTC.")
    requests: int
    input_tokens: int
    cached_tokens: int
    output_tokens: int
    reasoning_tokens: int
    tokens: int
    cost: float | None = Field(description="In US dollars; `null` if nobody knows.")
    unpriced_requests: int


class CostReportModel(BaseModel):
    """What model calls used and cost."""

    by: list[CostKeyName]
    lines: list[CostLineModel] = Field(description="The dearest first.")
    total: CostLineModel
    unpriced_models: list[str] = Field(description="Models whose price nobody knows.")
