"""Plans: a request split into tasks for several agents, with results and progress."""

from __future__ import annotations

import inspect
import math
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import field
from typing import Any, Literal, Protocol, TypeAlias
from uuid import uuid4

from ekiden.core.checks.fields import Amount, Count, Seconds, WholeAmount, check_fields
from ekiden.core.conversation.model import ModelRequest, ModelResponse
from ekiden.core.dataclass import dataclass
from ekiden.core.documents import Value, to_json
from ekiden.core.errors import EkidenError, UserError
from ekiden.core.profile import Budget
from ekiden.core.values import dumps

PlanPhase: TypeAlias = Literal[
    "init", "decomposed", "executing", "aggregating", "completed", "failed"
]
"""The phase of a plan. Each phase is stored before the next one starts."""

AskModel: TypeAlias = Callable[[ModelRequest], Awaitable[ModelResponse]]
"""Calls the supervisor's model. Each call is a recorded step and counts in the usage."""


class PlanFailed(EkidenError):
    """Every task of a supervisor's plan failed. The message lists the errors. Correct the cause and
    send the request again."""

    code = "plan.failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentTask(Value):
    """One part of a request, for one agent.

    For example::

        AgentTask(agent="weather", description="The weather in Kyoto on Monday")
    """

    task_id: str = field(default_factory=lambda: str(uuid4()))
    agent: str
    description: str
    """The full task description; never empty."""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    """Additional parameters, as JSON."""
    depends_on: tuple[str, ...] = ()
    """Ids of the tasks that must finish before this task starts. This task gets the results of
    those tasks."""
    created_at: float = field(default_factory=time.time)

    def __post_init__(self) -> None:
        if not isinstance(self.description, str) or not self.description.strip():
            raise UserError("a task needs a description that is not empty")
        if not isinstance(self.agent, str) or not self.agent:
            raise UserError("a task needs the name of an agent")
        if not isinstance(self.task_id, str) or not self.task_id:
            raise UserError("a task needs an id that is not empty")
        needs = self.depends_on
        if isinstance(needs, str) or not all(isinstance(each, str) and each for each in needs):
            raise UserError(f"`depends_on` of task {self.task_id} must be a list of ids of tasks")
        object.__setattr__(self, "depends_on", tuple(needs))
        if not isinstance(self.parameters, Mapping):
            raise UserError(f"`parameters` of task {self.task_id} must be a JSON object")
        _check_json(f"`parameters` of task {self.task_id}", dict(self.parameters))

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> AgentTask:
        """Create the object from the JSON that `to_json` returns."""
        return cls(**data)


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentResult(Value):
    """The result of a task: `data` if the task succeeded, `error` if it failed."""

    task_id: str
    agent: str
    success: bool
    data: Any = None
    """The result of a successful task, as JSON."""
    error: str | None = None
    execution_time: float = 0.0
    """The duration of all attempts together, in seconds."""

    def __post_init__(self) -> None:
        if self.success and self.data is None:
            raise UserError(f"the task {self.task_id} succeeded: its result needs `data`")
        if self.success and self.error is not None:
            raise UserError(f"the task {self.task_id} succeeded: it has no `error`")
        if not self.success and not self.error:
            raise UserError(f"the task {self.task_id} failed: its result needs an `error`")
        if not (math.isfinite(self.execution_time) and self.execution_time >= 0):
            raise UserError("a result's `execution_time` is 0 or more seconds")
        _check_json(f"the result of task {self.task_id}", self.data)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> AgentResult:
        """Create the object from the JSON that `to_json` returns."""
        return cls(**data)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskDecomposition:
    """A plan: a request that is split into one or more tasks.

    Raises `UserError` if there is no task, if two tasks have the same id, if `depends_on` names an
    unknown task, or if tasks depend on each other in a cycle::

        weather = AgentTask(agent="weather", description="Kyoto on Monday", task_id="t1")
        hotel = AgentTask(agent="hotels", description="A hotel that suits it", depends_on=("t1",))
        TaskDecomposition(tasks=(weather, hotel))
    """

    tasks: tuple[AgentTask, ...]
    reasoning: str = ""
    notes: tuple[str, ...] = ()
    """Corrections that Ekiden made to the proposed plan, for example that a task was given to the
    fallback."""

    def __post_init__(self) -> None:
        if not self.tasks:
            raise UserError("a plan needs at least one task")
        by_id = {task.task_id: task for task in self.tasks}
        if len(by_id) < len(self.tasks):
            raise UserError("two tasks of a plan have the same id")
        for task in self.tasks:
            for needed in task.depends_on:
                if needed not in by_id:
                    raise UserError(f"task {task.task_id} depends on {needed!r:.80}: no such task")
        cycle = _dependency_cycle(self.tasks)
        if cycle:
            raise UserError(f"tasks wait for each other in a circle: {' → '.join(cycle)}")

    @property
    def requires_aggregation(self) -> bool:
        """Whether there are several results, which must be combined into one answer."""
        return len(self.tasks) > 1

    def to_json(self) -> dict[str, Any]:
        """The plan as JSON."""
        return {
            "tasks": to_json(self.tasks),
            "reasoning": self.reasoning,
            "requires_aggregation": self.requires_aggregation,
            "notes": list(self.notes),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> TaskDecomposition:
        """Create the object from the JSON that `to_json` returns."""
        return cls(
            tasks=tuple(map(AgentTask.from_json, data["tasks"])),
            reasoning=data.get("reasoning", ""),
            notes=tuple(data.get("notes", ())),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class MultiAgentState:
    """The current state of a supervisor's plan: its tasks, their progress and their results."""

    user_input: str
    phase: PlanPhase = "init"
    decomposition: TaskDecomposition | None = None
    pending_tasks: tuple[AgentTask, ...] = ()
    results: tuple[AgentResult, ...] = ()
    """The results of finished tasks, in the order of completion."""
    final_response: str | None = None
    error: str | None = None
    session_id: str = ""

    def to_json(self) -> dict[str, Any]:
        """The plan and its progress as JSON."""
        plan = self.decomposition
        return {
            "session_id": self.session_id,
            "user_input": self.user_input,
            "phase": self.phase,
            "decomposition": None if plan is None else plan.to_json(),
            "pending_tasks": to_json(self.pending_tasks),
            "results": to_json(self.results),
            "final_response": self.final_response,
            "error": self.error,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """Describes an agent that can get tasks of a plan. A decomposer chooses a member for each
    task."""

    name: str
    description: str = ""
    keywords: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()
    examples: tuple[str, ...] = ()
    capabilities: tuple[str, ...] = ()


class Decomposer(Protocol):
    """Splits a request into tasks.

    For example::

        class EachLine:
            async def decompose(self, text, *, members, fallback, ask):
                lines = text.splitlines()
                tasks = [AgentTask(agent=fallback, description=line) for line in lines]
                return TaskDecomposition(tasks=tuple(tasks))

        Supervisor("desk", agents=[weather, general], decomposer=EachLine())
    """

    async def decompose(
        self,
        text: str,
        *,
        members: Sequence[Member],
        fallback: str | None,
        ask: AskModel | None,
    ) -> TaskDecomposition:
        """Return the tasks, each for one member. `ask` calls the supervisor's model; it is `None`
        if the supervisor has no model.

        Raises `ModelBehaviorError` if the model's output is still unusable after one attempt to
        repair it.
        """
        ...


class Aggregator(Protocol):
    """Combines several results into one answer.

    For example::

        class Short:
            async def aggregate(self, state, *, ask):
                return " / ".join(str(each.data) for each in state.results if each.success)

        Supervisor("desk", agents=[weather, general], aggregator=Short())
    """

    async def aggregate(self, state: MultiAgentState, *, ask: AskModel | None) -> str:
        """Return the answer to the request. The answer should also name missing results. Ekiden
        calls this method if the plan has at least two tasks, and at least one of them succeeded."""
        ...


DecomposeFunction: TypeAlias = Callable[..., Any]
"""A `Decomposer` as a sync or async function of the text. It may have the parameters `members`,
`fallback` and `ask`. It returns a `TaskDecomposition`, or a list of `AgentTask`."""
AggregateFunction: TypeAlias = Callable[..., Any]
"""An `Aggregator` as a sync or async function of the state. It may have the parameter `ask`. It
returns the answer."""


def keywords_taken(function: Callable[..., Any], names: Sequence[str], what: str) -> list[str]:
    """The keywords in `names` that the function accepts besides its positional argument. Raises
    `UserError` if the function requires other arguments."""
    try:
        signature = inspect.signature(function)
    except ValueError:  # Functions written in C may have no signature.
        return []
    takes_all = any(each.kind is each.VAR_KEYWORD for each in signature.parameters.values())
    first = next(iter(signature.parameters), None)
    taken = [
        name for name in names if takes_all or (name in signature.parameters and name != first)
    ]
    try:
        signature.bind(None, **dict.fromkeys(taken))
    except TypeError:
        raise UserError(
            f"{what} must take one argument, and may take {', '.join(names)} by name, but takes "
            f"{signature}"
        ) from None
    return taken


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanSettings:
    """The settings of a supervisor. `Supervisor` creates this object from its arguments."""

    members: tuple[Any, ...]
    """The agents that get tasks, as `Agent` objects."""
    fallback: str | None = None
    """The name of the member that gets a task if the plan names an unknown agent. `None` means the
    last member."""
    decomposer: Decomposer | DecomposeFunction | None = None
    """Splits the request into tasks. If `None`, the model splits the request. Without a model,
    rules split the request (see `RuleDecomposer`)."""
    aggregator: Aggregator | AggregateFunction | None = None
    """Combines the results into one answer. If `None`, the model combines the results. Without a
    model, the results are joined (see `JoinAggregator`)."""
    concurrency: Count = 8
    """The maximum number of concurrent tasks."""
    timeout_s: Seconds = 60.0
    """The timeout of each attempt of a task, in seconds. Time spent waiting for people does not
    count."""
    retries: WholeAmount = 1
    """The maximum number of retries of a failed task."""
    backoff_s: Amount = 0.5
    """Seconds before the first retry. The delay doubles with each retry."""
    budget: Budget | None = None
    """The budget of each task."""
    max_tasks: Count = 20
    """The maximum number of tasks; a plan with more tasks is refused."""

    def __post_init__(self) -> None:
        check_fields(self, "a supervisor")
        if callable(self.decomposer) and not hasattr(self.decomposer, "decompose"):
            keywords_taken(self.decomposer, ("members", "fallback", "ask"), "a decomposer")
        if callable(self.aggregator) and not hasattr(self.aggregator, "aggregate"):
            keywords_taken(self.aggregator, ("ask",), "an aggregator")
        if not self.members:
            raise UserError("a supervisor needs at least one agent to give tasks to")
        names = [agent.name for agent in self.members]
        if len(set(names)) < len(names):
            raise UserError("two agents of a supervisor have the same name")
        if self.fallback is not None and self.fallback not in names:
            raise UserError(
                f"the fallback {self.fallback!r:.80} is not among the supervisor's agents: "
                f"{', '.join(names)}"
            )

    @property
    def fallback_name(self) -> str:
        """The name of the member that gets a task if the plan names an unknown agent."""
        return self.fallback or str(self.members[-1].name)


def _check_json(what: str, value: Any) -> None:
    if isinstance(value, str):
        return
    try:
        dumps(value)
    except (TypeError, ValueError, RecursionError) as exc:
        raise UserError(f"{what} must be JSON: {str(exc)[:200]}") from exc


def _dependency_cycle(tasks: Sequence[AgentTask]) -> list[str]:
    """The ids of tasks in a dependency cycle, with the first id repeated at the end; empty if
    there is no cycle."""
    needs = {task.task_id: task.depends_on for task in tasks}
    done: set[str] = set()
    for start in needs:
        # Depth first, with a stack of its own: a plan may be deeper than Python's recursion limit.
        path: list[str] = []
        on_path: set[str] = set()
        stack: list[tuple[str, bool]] = [(start, False)]
        while stack:
            task_id, is_finished = stack.pop()
            if is_finished:
                path.pop()
                on_path.discard(task_id)
                done.add(task_id)
            elif task_id in on_path:
                return [*path[path.index(task_id) :], task_id]
            elif task_id not in done:
                path.append(task_id)
                on_path.add(task_id)
                stack.append((task_id, True))
                stack.extend((needed, False) for needed in needs[task_id])
    return []
