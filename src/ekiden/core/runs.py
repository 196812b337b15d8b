"""Runs with their status, outcomes, errors and ids, and callbacks of a run or of one agent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any, Final, Generic, Literal, TypeAlias

from ekiden.core.context import AgentHookContext, RunContextWrapper, TContext, TOutput
from ekiden.core.conversation.model import Item, ModelResponse, Usage
from ekiden.core.dataclass import dataclass
from ekiden.core.documents import Value, written
from ekiden.core.tools.tool import Tool

LimitName: TypeAlias = Literal["turns", "tokens", "seconds", "money"]
LimitScope: TypeAlias = Literal["run", "agent", "handoff", "tenant"]
ACTIVE: Final[frozenset[str]] = frozenset({"queued", "running"})
"""Statuses of runs that a process executes now, or will execute."""


@dataclass(frozen=True, slots=True)
class Done(Generic[TOutput]):
    """The agent gave its final answer."""

    output: TOutput
    kind: Literal["done"] = "done"


@dataclass(frozen=True, slots=True)
class HandedOff:
    """A turn ended with a handoff. The run continues with the agent `target`."""

    source: str
    target: str
    kind: Literal["handed_off"] = "handed_off"


@dataclass(frozen=True, slots=True)
class Waiting:
    """The session is suspended until an answer or an event arrives."""

    reason: str
    kind: Literal["waiting"] = "waiting"


@dataclass(frozen=True, slots=True)
class Refused:
    """The model declined to answer."""

    reason: str
    kind: Literal["refused"] = "refused"


@dataclass(frozen=True, slots=True)
class Failed:
    """The run failed. Its work is kept, and the run can be resumed."""

    code: str
    error: str
    kind: Literal["failed"] = "failed"


@dataclass(frozen=True, slots=True)
class OutOfBudget:
    """A limit was reached. The work is kept, and the run can be resumed with a higher limit."""

    limit: LimitName
    allowed: float
    used: float
    kind: Literal["out_of_budget"] = "out_of_budget"
    scope: LimitScope = field(default="run", repr=False, compare=False)
    """The scope of the limit: the whole run, one agent, the work after a handoff, or one day of a
    tenant."""


Outcome: TypeAlias = Done[TOutput] | Waiting | Refused | Failed | OutOfBudget
"""The ways in which a run can end."""


RunStatus: TypeAlias = Literal[
    "queued", "running", "waiting", "stopped", "done", "refused", "failed", "out_of_budget"
]
"""`queued`: the run has not started. `waiting`: the run waits for people. `stopped`: the run was
stopped on request and can be resumed. The other statuses are outcomes."""

Conclusion: TypeAlias = Literal[
    "succeeded", "with_errors", "refused", "rolled_back", "out_of_budget", "failed", "stopped"
]
"""How well a run went. `with_errors`: the run gave an answer, but the last call of a tool
failed, or the last attempt at a task. `refused`: a person said no, or the model declined to answer.
`rolled_back`: a handoff was rolled back."""


def _usage(counts: Mapping[str, Any] | None) -> Usage:
    return Usage.from_json(counts or {})


@dataclass(frozen=True, slots=True, kw_only=True)
class RunError(Value):
    """Why a run failed."""

    code: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReachedLimit(Value):
    """The limit at which a run stopped."""

    limit: LimitName
    allowed: float
    used: float
    scope: LimitScope = "run"
    """The scope of the limit: the whole run, one agent, the work after a handoff, or one day of a
    tenant."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run(Value):
    """A run with its current state."""

    run_id: str
    session_id: str
    status: RunStatus
    agent: str = ""
    """The current agent of the session."""
    output: Any = None
    """The final answer. `null` if the run is not done."""
    outcome: str | None = None
    conclusion: Conclusion | None = None
    """How well the run went; `null` until it has ended."""
    chain: Sequence[str] = ()
    """The agents that handled the session in this run, starting with `user`."""
    handoffs: Sequence[str] = ()
    """Ids of the handoffs of the run."""
    usage: Usage = field(default_factory=Usage, metadata=written(Usage.to_json, _usage))
    """The usage of the run's model calls. Counts of zero are left out."""
    error: RunError | None = None
    """The reason why the run failed. If a limit was reached, the text also says what to do."""
    reached: ReachedLimit | None = None
    """The limit at which the run stopped; `null` if the run reached no limit."""
    questions: Sequence[str] = ()
    """Ids of the inbox items that the run waits for."""
    started_at: float = 0.0
    updated_at: float = 0.0

    @property
    def is_active(self) -> bool:
        """Whether a process works on the run now, or will work on it without further input."""
        return self.status in ACTIVE

    @property
    def is_pending(self) -> bool:
        """The value of `is_active`, under the name that HTTP callers use."""
        return self.is_active

    @property
    def failure(self) -> RunError:
        """The error of a failed run. If no error was stored, the error has a general text."""
        return self.error or RunError(code="run.failed", message="the run failed")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStarted(Value):
    """A run that was just stored and has not taken its first step. The run continues even if no
    client reads its events."""

    run_id: str
    session_id: str


def run_id_of(session_id: str, number: int) -> str:
    """The id of a run."""
    return f"{session_id}:{number}"


def session_id_of(run_id: str) -> str:
    """The id of the session of a run; empty for an invalid id."""
    return run_id.rpartition(":")[0]


def parse_run_id(run_id: str) -> tuple[str, int]:
    """Return the id of the session and the number of the run. Raises `RunNotFound` for an invalid
    id."""
    session_id, _, number = run_id.rpartition(":")
    if not session_id or not number.isascii() or not number.isdigit() or len(number) > 9:
        from ekiden.core.errors.server import RunNotFound

        raise RunNotFound(run_id)
    return session_id, int(number)


class _CallHooks(Generic[TContext]):
    """Callbacks before and after calls of models and tools."""

    async def on_llm_start(
        self,
        context: RunContextWrapper[TContext],
        agent: Any,
        system_prompt: str | None,
        input_items: list[Item],
    ) -> None:
        """Before a model call."""

    async def on_llm_end(
        self, context: RunContextWrapper[TContext], agent: Any, response: ModelResponse
    ) -> None:
        """After a model call."""

    async def on_tool_start(
        self, context: RunContextWrapper[TContext], agent: Any, tool: Tool
    ) -> None:
        """Before a tool runs; `context` is its `ToolContext`."""

    async def on_tool_end(
        self, context: RunContextWrapper[TContext], agent: Any, tool: Tool, result: Any
    ) -> None:
        """After a tool returned."""


class RunHooks(_CallHooks[TContext]):
    """Callbacks for every agent of a run.

    For example::

        class Diary(RunHooks):
            async def on_handoff(self, context, from_agent, to_agent):
                print(from_agent.name, "hands to", to_agent.name)

        await Runner.run(triage, "Where is my parcel?", hooks=Diary())
    """

    async def on_agent_start(self, context: AgentHookContext[TContext], agent: Any) -> None:
        """Called when an agent starts to work: at the start of a run, and after each handoff."""

    async def on_agent_end(
        self, context: RunContextWrapper[TContext], agent: Any, output: Any
    ) -> None:
        """Called when an agent has given the final answer of the run."""

    async def on_handoff(
        self, context: RunContextWrapper[TContext], from_agent: Any, to_agent: Any
    ) -> None:
        """Called when an agent hands the conversation to another agent."""


class AgentHooks(_CallHooks[TContext]):
    """Callbacks for one agent: pass them as `Agent(hooks=…)`.

    For example::

        class Proud(AgentHooks):
            async def on_end(self, context, agent, output):
                print(agent.name, "said", output)

        desk = Agent("desk", hooks=Proud())
    """

    async def on_start(self, context: AgentHookContext[TContext], agent: Any) -> None:
        """Called when this agent starts to work: at the start of a run, and after each handoff to
        this agent."""

    async def on_end(self, context: RunContextWrapper[TContext], agent: Any, output: Any) -> None:
        """Called when this agent has given the final answer of the run."""

    async def on_handoff(
        self, context: RunContextWrapper[TContext], agent: Any, source: Any
    ) -> None:
        """Called when this agent (`source`) hands the conversation to `agent`."""
