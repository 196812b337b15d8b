"""Tasks of plans over HTTP."""

from __future__ import annotations

from typing import Literal, TypeAlias

from pydantic import BaseModel, Field

TaskStatusName: TypeAlias = Literal["pending", "running", "done", "failed", "stopped"]


class TaskModel(BaseModel):
    """A task of a supervisor's plan."""

    session_id: str
    supervisor: str | None
    task_id: str = Field(description="Unique within its plan.")
    agent: str
    description: str | None = Field(description="`null` where that is not to be recorded.")
    depends_on: list[str]
    status: TaskStatusName = Field(description="`stopped`: its run ended before it was over.")
    attempts: int
    started_at: float | None
    ended_at: float | None
    error: str | None
