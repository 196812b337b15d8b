"""The mirror of sessions over HTTP."""

from __future__ import annotations

from pydantic import BaseModel, Field


class SetAsideModel(BaseModel):
    """An event that a mirror does not get."""

    event_id: str
    problem: str
    at_us: int


class MirrorModel(BaseModel):
    """How a mirror stands."""

    name: str
    fed: bool = Field(description="Whether a process feeds it now.")
    sent: int
    waiting: int = Field(description="Sessions that have something to be sent.")
    up_to_date: bool
    problem: str | None
    set_aside: int
    aside: list[SetAsideModel]
