"""The configuration of a run, and its options that are not stored."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Container, Mapping, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeAlias

from ekiden.core.agent import Agent, Team
from ekiden.core.checks.fields import (
    Amount,
    Checked,
    Count,
    ModelName,
    Name,
    Seconds,
    WholeAmount,
    check_fields,
)
from ekiden.core.context import TContext
from ekiden.core.conversation.messages import DEFAULT_LIMITS, BusLimits
from ekiden.core.conversation.model import Item, Model, ModelDelta, ModelSettings, Usage
from ekiden.core.dataclass import dataclass
from ekiden.core.errors import UserError
from ekiden.core.events import Event
from ekiden.core.handoffs import HandoffInputData
from ekiden.core.profile import Budget
from ekiden.core.questions import EscalationStep
from ekiden.core.roles import Approver, Clock, EventSink
from ekiden.core.runs import RunHooks
from ekiden.core.values import SYSTEM_CLOCK
from ekiden.storage.base import DocumentWrite, SessionStatus, Store

if TYPE_CHECKING:
    from ekiden.core.guardrails import HandoffGuardrail, InputGuardrail, OutputGuardrail
    from ekiden.embeddings.base import Embedder
    from ekiden.memory.memory import Memory

AUTO = "auto"
"""As the recipient of a message: the agent that the team's router chooses."""


@dataclass(slots=True)
class ModelInputData:
    """The input of a model call."""

    input: list[Item]
    instructions: str | None


@dataclass(slots=True)
class CallModelData(Generic[TContext]):
    """The input of a `call_model_input_filter`."""

    model_data: ModelInputData
    agent: Any
    context: TContext | None


CallModelInputFilter: TypeAlias = Callable[
    [CallModelData[Any]], ModelInputData | Awaitable[ModelInputData]
]
HandoffInputFilter: TypeAlias = Callable[
    [HandoffInputData], HandoffInputData | Awaitable[HandoffInputData]
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits(Checked):
    """The limits of a run. At a limit the run stops. Its work is kept, and the run can be resumed.
    `None` in a field means no limit.

    For example::

        RunConfig(limits=Limits(turns=20, tokens=50_000))
    """

    turns: WholeAmount | None = 10
    """The maximum number of turns of all agents of the run together."""
    depth: WholeAmount | None = 5
    """The maximum number of handoffs in one run. A further handoff is refused, and the model gets
    the reason."""
    tokens: WholeAmount | None = None
    """The maximum number of tokens of all model calls of the run."""
    seconds: Amount | None = None
    """The maximum time of work on the run, in seconds. Time spent waiting for people does not
    count."""
    money: Amount | None = None
    """The maximum cost of the model calls of the run, in the currency of `RunConfig.prices`."""
    calls: WholeAmount | None = 64
    """The maximum number of tool calls in one turn. Further calls are not executed, and the model
    gets an error text for them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Price(Checked):
    """The prices of a model, each for a million tokens.

    For example::

        RunConfig(prices={"openai:gpt-5-mini": Price(input=0.25, output=2.0)})
    """

    input: Amount
    output: Amount
    cached_input: Amount | None = None
    """The price of cached input tokens. `None` means the same price as `input`."""

    def of(self, usage: Usage) -> float:
        """The cost of `usage`."""
        cached = self.input if self.cached_input is None else self.cached_input
        fresh = max(usage.input_tokens - usage.cached_tokens, 0)
        total = (
            fresh * self.input + usage.cached_tokens * cached + usage.output_tokens * self.output
        )
        return total / 1e6


@dataclass(frozen=True, slots=True, kw_only=True)
class RunConfig:
    """Settings of one run. All settings have defaults.

    For example::

        config = RunConfig(model="openai:gpt-5.2", on_busy="refuse")
        await Runner.run(triage, "Where is my parcel?", run_config=config)
    """

    model: ModelName | Model | None = None
    """A model to use instead of the agents' own models."""
    model_settings: ModelSettings | None = None
    """Model settings that override the agents' own `model_settings`."""
    model_timeout_s: Seconds = 120.0
    """The timeout of one model call, in seconds."""
    tool_timeout_s: Seconds | None = None
    """The timeout, in seconds, of tools that have no timeout of their own."""
    parallel_tools: Count = 16
    """The maximum number of tools of one turn that run at the same time."""
    approver: Approver | Literal["inbox"] | None = None
    """The `Approver` that is asked before a tool with `confirmation` runs, or before a handoff with
    `confirm` is made. With ``"inbox"``, people answer in the inbox, and the session is suspended
    until then. With `None`, these tools never run, and these handoffs are refused."""
    approval_valid_s: Seconds | None = 86_400.0
    """The time, in seconds, for which an approval of a tool call is valid. If the call has not
    started by then, or if an "always" approval is older, the person is asked again. `None` means no
    limit."""
    operator: Name = "operator"
    """The default role of questions to people: people with this role get the questions that name no
    role."""
    escalation: Sequence[EscalationStep] = ()
    """If a question is not answered in time: the roles to ask next, and the number of seconds after
    which each role is asked."""
    bus: BusLimits = DEFAULT_LIMITS
    """Settings of messages between agents: limits, and the rule that chooses which query is
    cancelled to end a deadlock."""
    app: Name | None = None
    """The name of the app that owns the shared `app:` variables and the memories. If `None`, there
    are no `app:` variables, and memories belong to the app ``ekiden``. This is also the default app
    of the command `ekiden memory`."""
    embedder: Embedder | Callable[[], Embedder] | None = None
    """The embedder for memories of the type `vector`, or a function that returns the embedder.
    `None` means the built-in embedder, which runs in this process and needs ``ekiden[local]``."""
    input_guardrails: Sequence[InputGuardrail[Any]] = ()
    """Input guardrails for every agent of the run. They run before the guardrails of the agent
    itself."""
    output_guardrails: Sequence[OutputGuardrail[Any]] = ()
    """Output guardrails for every agent of the run. They run before the guardrails of the agent
    itself."""
    handoff_guardrails: Sequence[HandoffGuardrail[Any]] = ()
    """Handoff guardrails for every agent of the run. They run before the guardrails of the agent
    itself."""
    handoff_input_filter: HandoffInputFilter | None = None
    """The input filter of handoffs that have no filter of their own."""
    call_model_input_filter: CallModelInputFilter | None = None
    """A function that may change the input of every model call."""
    limits: Limits = field(default_factory=Limits)
    given: Mapping[str, float] = field(default_factory=dict)
    """The limits that `with_limits` set for this run, by name. These limits are stored with the
    run, and apply in every process that continues the run."""
    daily: Budget | None = None
    """The limits, per day, of all runs of the store together. A day begins at midnight UTC."""
    returns: Literal["declared", "always"] = "declared"
    """Whether a task may return to an agent that had it before. With `declared`, it may return only
    through handoffs with `allow_return`. With `always`, it may return through every handoff, and
    only `Limits.depth` ends a loop."""
    model_retries: WholeAmount = 3
    """The maximum number of consecutive invalid model answers, and also the maximum number of
    rolled-back handoffs in a run. If one of these numbers is exceeded, the run fails."""
    prices: Mapping[str, Price] = field(default_factory=dict)
    """The prices by model name. The name may be the one in the agent, in this config or in the
    model's response."""
    escalate_to: Name | None = None
    """The role of the people who are notified when a handoff is rolled back."""
    compensation_backoff_s: Amount = 0.5
    """Seconds before the first retry of a failed compensation. The delay doubles with each
    retry."""
    rollback_wait_s: Amount = 10.0
    """The maximum number of seconds that a rollback waits for calls that cannot be stopped, such as
    threads, before it undoes effects. If a call takes longer, a person has to decide about its
    effects."""
    on_busy: Literal["wait", "refuse"] = "wait"
    """What happens if another run uses the session. `wait`: this run waits. `refuse`: `SessionBusy`
    is raised."""
    busy_timeout_s: Amount = 30.0
    lease_s: Seconds = 30.0
    """The process that runs a session renews its lease regularly. If it does not renew the lease
    for this many seconds, other processes may take over the session."""
    events: bool = True
    """Whether to record all events. If false, Ekiden records only handoffs, changes of variables,
    and events with conversation items or an error."""
    trace_include_sensitive_data: bool = True
    """Whether traces may show content. If false, `Event.error` has no error text, and no trace in
    any process shows prompts, answers, arguments, results or reasons of the run. The store contains
    the whole conversation even if this is false."""
    sinks: Sequence[EventSink] = ()
    """Objects that get every event after the event was stored."""
    clock: Clock = SYSTEM_CLOCK

    def __post_init__(self) -> None:
        check_fields(self)
        if self.input_guardrails or self.output_guardrails or self.handoff_guardrails:
            self._check_guardrails()

    def _check_guardrails(self) -> None:
        from ekiden.core.guardrails import HandoffGuardrail, InputGuardrail, OutputGuardrail

        for name, kind in (
            ("input_guardrail", InputGuardrail),
            ("output_guardrail", OutputGuardrail),
            ("handoff_guardrail", HandoffGuardrail),
        ):
            for each in getattr(self, f"{name}s"):
                if not isinstance(each, kind):
                    raise UserError(
                        f"RunConfig.{name}s has {each!r:.80} of type {type(each).__name__}: give "
                        f"what @{name} makes"
                    )

    def with_limits(self, limits: Mapping[str, float | None]) -> RunConfig:
        """Return a copy with other limits of the run. `None` leaves a limit unchanged."""
        given = {name: limit for name, limit in limits.items() if limit is not None}
        if not given:
            return self
        changed: Any = given
        return replace(self, limits=replace(self.limits, **changed), given={**self.given, **given})


def memory_for(
    agent: Agent[Any], *, store: Store, user_id: str | None, config: RunConfig
) -> Memory:
    """The agent's memory for this user. Raises `NoMemory` if the agent has no memory."""
    if agent.memory is None:
        from ekiden.core.errors.memory import NoMemory

        raise NoMemory(
            f"agent {agent.name!r} has no memory: give it one, `memory=MemorySettings()`, or "
            "`memory: {enabled: true}` in its file"
        )
    from ekiden.memory import Memory

    return Memory(
        store,
        user=user_id,
        app=config.app,
        settings=agent.memory,
        embedder=config.embedder,
        agent=agent.name,
    )


@dataclass(slots=True, kw_only=True, eq=False, repr=False)
class RunOptions:
    """Options of a run that are not stored."""

    root: Agent[Any] | Team
    config: RunConfig
    context: Any = None
    hooks: RunHooks[Any] | None = None
    live: bool = False
    status_on_cancel: SessionStatus = "idle"
    """The status that the session gets when the run is cancelled: `ready` if another process should
    continue it."""

    drives: bool = True
    """Whether this process also runs the sessions of queried agents. Otherwise other processes run
    them."""
    serves: Container[str] | None = None
    """The agents that may run in this process. Other processes run the sessions of all other
    agents. `None` means all agents."""
    is_reachable: bool = True
    """Whether other processes can see the session, and interact with it while it runs."""
    is_watched: bool = True
    """Whether observers read the events while the run is in progress."""
    show: Callable[[Event | ModelDelta], None] | None = None
    """A function that gets the events and deltas of this run. It passes them to the observer of the
    run that asked this run, directly or through other runs."""
    to: str | None = None
    """The recipient of a new message: the name of an agent, or `AUTO`. `None` means the agent that
    has the session."""
    route_options: Mapping[str, Any] | None = None
    """Options for the router, for this message only."""
    variables: Mapping[str, Any] | None = None
    """Variables to set in the session together with a new message."""
    keeps_limits: bool = True
    """Whether the stored limits of the run apply. Otherwise only the limits in `config` apply."""
    waits_for_pending_work: bool = False
    """Whether a new message waits, or raises `SessionBusy`, while the session has unclaimed work.
    Otherwise the message interrupts this work."""
    along: Callable[[int], DocumentWrite] | None = None
    """A function that gets the number of the run, and returns a document to store together with the
    message. If the store refuses the document, the message is not stored either."""
    caller: tuple[Any, asyncio.Task[Any] | None] | None = None
    """The run whose code started this run and the task that waits for the thread of this code."""
    on_handoff_executed: Callable[[str, int], None] | None = None
    """A function that is called when a handoff that a program requested is executed in this
    process. It gets the id of the handoff and the number of its run."""

    @property
    def team(self) -> Team:
        """All agents that may get the conversation."""
        if isinstance(self.root, Agent):
            self.root = Team(self.root)
        return self.root

    def check_addressee(self) -> None:
        """Raise `UnknownAgent` or `UserError` if `to` names no agent."""
        if self.to == AUTO:
            if self.team.router is None:
                raise UserError(
                    "this team has no router: add one, as in Team(router.agent, …), or name an "
                    "agent"
                )
        elif self.to is not None:
            self.find(self.to)

    def is_served(self, agent: Agent[Any]) -> bool:
        """Whether the agent may run in this process."""
        return self.serves is None or agent.name in self.serves

    @property
    def entry(self) -> Agent[Any]:
        """The agent that gets a new conversation."""
        return self.root.entry if isinstance(self.root, Team) else self.root

    def find(self, name: str) -> Agent[Any]:
        """The member of the team with this name. Raises `UnknownAgent`."""
        if isinstance(self.root, Agent) and self.root.name == name:
            return self.root
        return self.team[name]
