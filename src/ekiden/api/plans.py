"""Plans: how supervisors split requests, and the results of the tasks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal, Protocol, TypeAlias

from ekiden.api.methods.called import Called, calls, lists
from ekiden.api.methods.endpoint import Told, endpoint
from ekiden.api.methods.values import EVENT_CURSOR, PLAIN, SAID, SESSION_ID, Moment, Pages
from ekiden.core.documents import Value
from ekiden.core.plan import AgentResult, AgentTask, PlanPhase
from ekiden.project.plan_preview import PlanPreview

TaskStatus: TypeAlias = Literal["pending", "running", "done", "failed", "stopped"]
"""`pending`: waits for its turn, or for other tasks; `stopped`: the run ended before the task
did."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFacts(Value):
    """The state of a task."""

    task_id: str
    """Unique within its plan."""
    agent: str
    description: str | None
    """`null` if it is not recorded."""
    depends_on: Sequence[str]
    status: TaskStatus
    """`stopped`: its run ended before it did."""
    attempts: int
    started_at: float | None
    """Seconds since 1970."""
    ended_at: float | None
    error: str | None
    sessions: Sequence[str]
    """The sessions in which its agent works on it, one for each attempt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanTask(TaskFacts):
    """A task of a supervisor's plan."""

    session_id: str
    supervisor: str | None
    plan: int
    """The number of the plan's event."""
    planned_at: float
    """When the plan was made; seconds since 1970."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskOutcome(TaskFacts):
    """A task of the plan, with its agent's answer."""

    result: str | None
    """A result that is not text is JSON."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decomposition(Value):
    """A request split into tasks."""

    tasks: Sequence[AgentTask]
    reasoning: str
    requires_aggregation: bool
    """Whether several results must be combined into an answer."""
    notes: Sequence[str]
    """Corrections of the proposal of the model or the rules."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanProgress(Value):
    """The progress of a plan, in tasks."""

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
    """In the order of completion."""
    final_response: str | None
    error: str | None
    progress: PlanProgress
    tasks: Sequence[TaskOutcome]
    """The state of each task, in the plan's order."""


class PlansApi(Protocol):
    """How supervisors split requests."""

    @endpoint("POST", "/plans/preview", scope="run", problems=(404, 413, 502), body="NewPreview")
    async def preview(
        self,
        text: Annotated[
            str,
            Told(
                "`@name` at the beginning names a supervisor.",
                min_length=1,
                max_length=100_000,
                pattern=SAID,
                examples=("Check the weather in Kyoto and find a hotel",),
            ),
        ],
        *,
        agent: Annotated[
            str | None,
            Told(
                "The supervisor; by default the team's only one, or a new one over all agents.",
                min_length=1,
                max_length=200,
                pattern=PLAIN,
            ),
        ] = None,
    ) -> PlanPreview:
        """Show how a request would be split into tasks and assigned; nothing is run or stored.

        A configured model splits it, which costs money: so it needs the scope `run`. Otherwise the
        agents' keywords and patterns do.
        """
        ...

    @endpoint("GET", "/sessions/{session_id}/plan", scope="read", problems=(404,))
    async def get(
        self,
        session_id: Annotated[
            str, Told("The session's id.", min_length=1, max_length=128, pattern=SESSION_ID)
        ],
    ) -> Plan:
        """Get the plan of a session's last run, with its progress; 404 if that run had none."""
        ...

    @endpoint("GET", "/tasks", scope="read", cursor=rf"^[0-9]{{1,4}}~({EVENT_CURSOR})?$")
    def tasks(
        self,
        *,
        session_id: Annotated[
            str | None,
            Told(
                "Only tasks of this session, which is much faster in a large store.",
                min_length=1,
                max_length=128,
                pattern=SESSION_ID,
            ),
        ] = None,
        agent: Annotated[
            str | None, Told("Only tasks for this agent.", max_length=200, pattern=PLAIN)
        ] = None,
        status: Annotated[TaskStatus | None, Told("Filter by status.")] = None,
        since: Annotated[
            Moment | None, Told("Only tasks of plans made at this time or later.")
        ] = None,
        until: Annotated[Moment | None, Told("Only tasks of plans made before this time.")] = None,
    ) -> Pages[PlanTask]:
        """List the tasks of plans, the newest plan first, and in order within a plan."""
        ...


class CalledPlans(Called):
    """`PlansApi` for synchronous code."""

    preview = calls(PlansApi.preview)
    get = calls(PlansApi.get)
    tasks = lists(PlansApi.tasks)
