"""Plans of supervisors over HTTP."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from ekiden.api.texts import PLAIN, SAID
from ekiden.server.models.tasks import TaskStatusName


class NewPreview(BaseModel):
    """A request of which is asked how it would be split."""

    model_config = ConfigDict(extra="forbid")

    text: str = Field(
        min_length=1,
        max_length=100_000,
        pattern=SAID,
        description="`@name` at the beginning is a supervisor.",
        examples=["Check the weather in Kyoto and find a hotel"],
    )
    agent: str | None = Field(
        default=None,
        min_length=1,
        max_length=200,
        pattern=PLAIN,
        description="The supervisor; else the only one that there is, else one over all agents.",
    )


class PlannedTaskModel(BaseModel):
    """One part of a request, for one agent."""

    task_id: str
    agent: str
    description: str
    parameters: dict[str, Any]
    depends_on: list[str]


class PreviewModel(BaseModel):
    """How a request would be split."""

    reasoning: str
    requires_aggregation: bool
    method: Literal["model", "rules", "own"]
    tasks: list[PlannedTaskModel]
    notes: list[str]


class PlanTaskModel(PlannedTaskModel):
    """A task as it is stored."""

    created_at: float


class DecompositionModel(BaseModel):
    """A request as tasks."""

    tasks: list[PlanTaskModel]
    reasoning: str
    requires_aggregation: bool
    notes: list[str]


class ResultModel(BaseModel):
    """What became of a task."""

    task_id: str
    agent: str
    success: bool
    data: Any
    error: str | None
    execution_time: float


class ProgressModel(BaseModel):
    """How far a plan came, in tasks."""

    tasks: int
    done: int
    failed: int
    open: int


class TaskViewModel(BaseModel):
    """A task of the plan, with what became of it."""

    task_id: str
    agent: str
    description: str
    depends_on: list[str]
    status: TaskStatusName = Field(description="`stopped`: its run ended before it was over.")
    attempts: int
    started_at: float | None = Field(description="Seconds since 1970.")
    ended_at: float | None
    error: str | None
    result: str | None = Field(description="What its agent answered; what is no text, as JSON.")
    sessions: list[str] = Field(
        description="The sessions in which its agent works on it, one for each attempt."
    )


class PlanModel(BaseModel):
    """The plan of a session's last run, as far as it came."""

    session_id: str
    user_input: str
    phase: Literal["init", "decomposed", "executing", "aggregating", "completed", "failed"]
    decomposition: DecompositionModel | None
    pending_tasks: list[PlanTaskModel]
    results: list[ResultModel]
    final_response: str | None
    error: str | None
    progress: ProgressModel
    tasks: list[TaskViewModel] = Field(description="What became of each, in the plan's order.")
