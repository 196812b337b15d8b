"""Plans of supervisors: the tasks of a request, and the results of the tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Protocol, TypeAlias

from ekiden.api.methods.called import Called, calls, lists
from ekiden.api.methods.endpoint import Param, SessionId, endpoint, filter_by, identifier
from ekiden.api.methods.values import EVENT_CURSOR, PLAIN, SAID, Moment, Pages
from ekiden.core.documents import Value, left_out
from ekiden.core.plan import AgentResult, AgentTask, PlanPhase

TaskStatus: TypeAlias = Literal["pending", "running", "done", "failed", "stopped"]
"""`pending`: the task waits for its turn, or for other tasks. `stopped`: the run ended before the
task did."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFacts(Value):
    """The state of a task."""

    task_id: str
    """The id of the task, unique within its plan."""
    agent: str
    description: str | None
    """The description of the task; `null` if it was not recorded."""
    depends_on: Sequence[str]
    status: TaskStatus
    """The state of the task. `stopped`: the run ended before the task did."""
    attempts: int
    started_at: float | None
    """When the task started, in seconds since 1970."""
    ended_at: float | None
    error: str | None
    sessions: Sequence[str]
    """The sessions in which the agent works on the task, one for each attempt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanTask(TaskFacts):
    """A task of a supervisor's plan."""

    session_id: str
    supervisor: str | None
    plan: int
    """The number of the event that recorded the plan."""
    planned_at: float
    """The time at which the plan was made, in seconds since 1970."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskOutcome(TaskFacts):
    """A task of the plan, with its agent's answer."""

    result: str | None
    """The result of the task. A result that is not text is written as JSON."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decomposition(Value):
    """A request split into tasks."""

    tasks: Sequence[AgentTask]
    reasoning: str
    requires_aggregation: bool
    """Whether the plan has several results, which must be combined into one answer."""
    notes: Sequence[str]
    """Corrections that Ekiden made to the plan of the model or of the rules."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanProgress(Value):
    """The progress of a plan: the number of tasks in each state."""

    tasks: int
    done: int
    failed: int
    open: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan(Value):
    """The plan of a session's last run, with its progress."""

    session_id: str
    user_input: str
    phase: PlanPhase
    decomposition: Decomposition | None
    pending_tasks: Sequence[AgentTask]
    results: Sequence[AgentResult]
    """The results of finished tasks, in the order of completion."""
    final_response: str | None
    error: str | None
    progress: PlanProgress
    tasks: Sequence[TaskOutcome]
    """The state of each task, in the order of the plan."""


PlanMethod: TypeAlias = Literal["model", "rules", "own"]
"""How a request is split: by a model, by the agents' keywords and patterns, or by the supervisor's
own code."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedTask(Value):
    """One part of a request, for one agent."""

    task_id: str
    agent: str
    description: str
    parameters: Mapping[str, Any]
    """Additional parameters for the agent, as JSON."""
    depends_on: Sequence[str]
    """The ids of the tasks whose results this task needs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanPreview(Value):
    """How a supervisor would split a request."""

    reasoning: str
    requires_aggregation: bool
    """Whether several results must be combined into an answer."""
    method: PlanMethod
    """How the request was split: by a model, by the agents' keywords and patterns, or by the
    supervisor's own code."""
    tasks: Sequence[PlannedTask]
    notes: Sequence[str]
    """Corrections that Ekiden made to the plan of the model or of the rules."""
    supervisor: str | None
    """The supervisor of the plan. `null` if the plan uses all agents that can get requests."""
    model: str | None = left_out()
    """The model that split the request."""


class PlansApi(Protocol):
    """The plans of supervisors: how they split requests into tasks."""

    @endpoint("POST", "/plans/preview", scope="run", problems=(404, 413, 502), body="NewPreview")
    async def preview(
        self,
        text: Annotated[
            str,
            Param(
                "The request. `@name` at the beginning chooses the supervisor.",
                min_length=1,
                max_length=100_000,
                pattern=SAID,
                examples=("Check the weather in Kyoto and find a hotel",),
            ),
        ],
        *,
        agent: Annotated[
            str | None,
            Param(
                "The supervisor that makes the plan. Default: the only supervisor of the team. If "
                "the team has no supervisor, or several, a new supervisor of all agents makes "
                "the plan.",
                min_length=1,
                max_length=200,
                pattern=PLAIN,
            ),
        ] = None,
    ) -> PlanPreview:
        """Show how a supervisor would split a request into tasks. Nothing is run or stored.

        The supervisor's model splits the request. Without a model, Ekiden splits the request by the
        agents' keywords and patterns. The operation needs the scope `run`, because a model call
        costs money.
        """
        ...

    @endpoint("GET", "/sessions/{session_id}/plan", scope="read", problems=(404,))
    async def get(self, session_id: SessionId) -> Plan:
        """Get the plan of a session's last run, with its progress. The status is 404 if that run
        had no plan."""
        ...

    @endpoint("GET", "/tasks", scope="read", cursor=rf"^[0-9]{{1,4}}~({EVENT_CURSOR})?$")
    def tasks(
        self,
        *,
        session_id: Annotated[
            str | None,
            identifier("Only tasks of this session. In a large store, this is much faster."),
        ] = None,
        agent: Annotated[str | None, filter_by("Only tasks for this agent.")] = None,
        status: Annotated[TaskStatus | None, Param("Filter by status.")] = None,
        since: Annotated[
            Moment | None, Param("Only tasks of plans made at this time or later.")
        ] = None,
        until: Annotated[Moment | None, Param("Only tasks of plans made before this time.")] = None,
    ) -> Pages[PlanTask]:
        """List the tasks of all plans, newest plan first. The tasks of one plan are in the order of
        the plan."""
        ...


class CalledPlans(Called):
    """`PlansApi` for synchronous code."""

    preview = calls(PlansApi.preview)
    get = calls(PlansApi.get)
    tasks = lists(PlansApi.tasks)
