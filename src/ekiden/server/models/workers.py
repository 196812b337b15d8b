"""Workers over HTTP."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field


class WorkerModel(BaseModel):
    """Who works on sessions of the store."""

    id: str
    owner: str = Field(description="What it is called as the owner of sessions.")
    host: str
    pid: int
    version: str
    engine: str = Field(description="`worker`, `server`, or another.")
    tenant: str
    agents: list[str] = Field(description="Those that it runs.")
    needs: dict[str, list[str]] = Field(
        description="The labels that agents of its team need which it does not run."
    )
    labels: list[str]
    concurrency: int
    running: int = Field(description="Sessions of this store under way.")
    finished: int
    started_at: float
    seen_at: float
    state: Literal["working", "draining", "gone"]


class UnservedModel(BaseModel):
    """Ready sessions of an agent that no worker runs."""

    agent: str
    sessions: int = Field(description="Of the latest thousand that are ready.")
    needs: list[str] = Field(description="The labels that it needs, as far as any worker knows.")


class WorkersModel(BaseModel):
    """Who works, and what nobody works on."""

    workers: list[WorkerModel]
    unserved: list[UnservedModel]
