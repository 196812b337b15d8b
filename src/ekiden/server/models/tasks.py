"""Tasks of plans over HTTP."""

from __future__ import annotations

from typing import Literal, TypeAlias

from pydantic import BaseModel, Field

TaskStatusName: TypeAlias = Literal["pending", "running", "done", "failed", "stopped"]


class TaskModel(BaseModel):
    """A task of a supervisor's plan."""

    session_id: str
    supervisor: str | None
    plan: int = Field(description="The number of the event that made the plan.")
    planned_at: float = Field(description="When that was; seconds since 1970.")
    task_id: str = Field(description="Unique within its plan.")
    agent: str
    description: str | None = Field(description="`null` where that is not to be recorded.")
    depends_on: list[str]
    status: TaskStatusName = Field(description="`stopped`: its run ended before it was over.")
    attempts: int
    started_at: float | None
    ended_at: float | None
    error: str | None
    sessions: list[str] = Field(
        description="The sessions in which its agent works on it, one for each attempt."
    )
