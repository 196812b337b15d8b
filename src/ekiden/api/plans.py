"""Plans: how supervisors split requests, and what became of the tasks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal, Protocol, TypeAlias

from ekiden.api.called import Called, calls, lists
from ekiden.api.endpoint import Told, endpoint
from ekiden.api.pages import Pages
from ekiden.api.texts import EVENT_CURSOR, PLAIN, SAID, SESSION_ID, Moment
from ekiden.core.plan import AgentResult, AgentTask, PlanPhase
from ekiden.core.values.documents import Value
from ekiden.project.plan_preview import PlanPreview

TaskStatus: TypeAlias = Literal["pending", "running", "done", "failed", "stopped"]
"""`pending`: waits for its turn, or for others; `stopped`: the run ended before it was over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFacts(Value):
    """What became of a task."""

    task_id: str
    """Unique within its plan."""
    agent: str
    description: str | None
    """`null` where that is not to be recorded."""
    depends_on: Sequence[str]
    status: TaskStatus
    """`stopped`: its run ended before it was over."""
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
    """The number of the event that made the plan."""
    planned_at: float
    """When that was; seconds since 1970."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskOutcome(TaskFacts):
    """A task of the plan, with what its agent answered."""

    result: str | None
    """What is no text, as JSON."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decomposition(Value):
    """A request as tasks."""

    tasks: Sequence[AgentTask]
    reasoning: str
    requires_aggregation: bool
    """Whether there is more than one result to make an answer of."""
    notes: Sequence[str]
    """What was changed in what the model or the rules said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanProgress(Value):
    """How far a plan came, in tasks."""

    tasks: int
    done: int
    failed: int
    open: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan(Value):
    """The plan of a session's last run, as far as it came."""

    session_id: str
    user_input: str
    phase: PlanPhase
    decomposition: Decomposition | None
    pending_tasks: Sequence[AgentTask]
    results: Sequence[AgentResult]
    """In the order in which they came."""
    final_response: str | None
    error: str | None
    progress: PlanProgress
    tasks: Sequence[TaskOutcome]
    """What became of each, in the plan's order."""


class Plans(Protocol):
    """How supervisors split requests."""

    @endpoint("POST", "/plans/preview", scope="run", problems=(404, 413, 502), body="NewPreview")
    async def preview(
        self,
        text: Annotated[
            str,
            Told(
                "`@name` at the beginning is a supervisor.",
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
                "The supervisor; else the only one that there is, else one over all agents.",
                min_length=1,
                max_length=200,
                pattern=PLAIN,
            ),
        ] = None,
    ) -> PlanPreview:
        """Show how a request would be split into tasks, and for whom; nothing is run or stored.

        A model splits it where one is set, which costs: so it needs the scope `run`. Else the
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
        """The plan of a session's last run, as far as it came; 404 if that run had none."""
        ...

    @endpoint("GET", "/tasks", scope="read", cursor=rf"^[0-9]{{1,4}}~({EVENT_CURSOR})?$")
    def tasks(
        self,
        *,
        session_id: Annotated[
            str | None,
            Told(
                "Only those of this session, which is much quicker in a large store.",
                min_length=1,
                max_length=128,
                pattern=SESSION_ID,
            ),
        ] = None,
        agent: Annotated[
            str | None, Told("Only those for this agent.", max_length=200, pattern=PLAIN)
        ] = None,
        status: Annotated[TaskStatus | None, Told("Filter by status.")] = None,
        since: Annotated[Moment | None, Told("Only of plans made then or later.")] = None,
        until: Annotated[Moment | None, Told("Only of plans made before then.")] = None,
    ) -> Pages[PlanTask]:
        """List the tasks of plans, those of the newest plan first and within a plan in its
        order."""
        ...


class CalledPlans(Called):
    """`Plans`, called."""

    preview = calls(Plans.preview)
    get = calls(Plans.get)
    tasks = lists(Plans.tasks)
