"""How a run behaves, and what it brings along."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeAlias

from ekiden.core.agent import Agent
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
from ekiden.core.conversation.items import Item
from ekiden.core.conversation.messages import DEFAULT_LIMITS, BusLimits
from ekiden.core.conversation.model import Model, ModelDelta, ModelSettings
from ekiden.core.conversation.usage import Usage
from ekiden.core.errors import UserError
from ekiden.core.errors.memory import NoMemory
from ekiden.core.events import Event
from ekiden.core.handoff import HandoffInputData
from ekiden.core.handoff_terms import Budget
from ekiden.core.hooks import RunHooks
from ekiden.core.questions.inbox_item import EscalationStep
from ekiden.core.roles import Approver, Clock, EventSink
from ekiden.core.team import Team
from ekiden.core.values.clock import SYSTEM_CLOCK
from ekiden.storage.base import DocumentWrite, SessionStatus, Store

if TYPE_CHECKING:
    from ekiden.core.guardrails import HandoffGuardrail, InputGuardrail, OutputGuardrail
    from ekiden.embeddings.base import Embedder
    from ekiden.memory.memory import Memory

AUTO = "auto"
"""As an addressee: whomever the team's router chooses."""


@dataclass(slots=True)
class ModelInputData:
    """What a model is about to be given."""

    input: list[Item]
    instructions: str | None


@dataclass(slots=True)
class CallModelData(Generic[TContext]):
    """What a `call_model_input_filter` gets."""

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
    """Where a run stops; its work is kept and it can be resumed. `None` is no limit.

    For example::

        RunConfig(limits=Limits(turns=20, tokens=50_000))
    """

    turns: WholeAmount | None = 10
    """Turns of any agent of the run."""
    depth: WholeAmount | None = 5
    """Handoffs in one run; one more is refused, and the model is told."""
    tokens: WholeAmount | None = None
    """Tokens of all model calls of the run."""
    seconds: Amount | None = None
    """Time spent working on the run, waiting for people not counted."""
    money: Amount | None = None
    """What the model calls of the run may cost, in the currency of `RunConfig.prices`."""
    calls: WholeAmount | None = 64
    """Tool calls of one turn; those beyond are not made, and the model is told."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Price(Checked):
    """What a million tokens of a model cost.

    For example::

        RunConfig(prices={"openai:gpt-5-mini": Price(input=0.25, output=2.0)})
    """

    input: Amount
    output: Amount
    cached_input: Amount | None = None
    """`None`: as much as `input`."""

    def of(self, usage: Usage) -> float:
        """What `usage` costs."""
        cached = self.input if self.cached_input is None else self.cached_input
        fresh = max(usage.input_tokens - usage.cached_tokens, 0)
        total = (
            fresh * self.input + usage.cached_tokens * cached + usage.output_tokens * self.output
        )
        return total / 1e6


@dataclass(frozen=True, slots=True, kw_only=True)
class RunConfig:
    """Settings of one run; everything has a default that works.

    For example::

        config = RunConfig(model="openai:gpt-5.2", on_busy="refuse")
        await Runner.run(triage, "Where is my parcel?", run_config=config)
    """

    model: ModelName | Model | None = None
    """Used instead of the agents' own."""
    model_settings: ModelSettings | None = None
    """On top of the agents' own."""
    model_timeout_s: Seconds = 120.0
    """The longest wait for one model call."""
    tool_timeout_s: Seconds | None = None
    """The longest wait for a tool that has no time-out of its own."""
    parallel_tools: Count = 16
    """How many tools of a turn run at the same time."""
    approver: Approver | Literal["inbox"] | None = None
    """Asked before a tool with `confirmation` runs; ``"inbox"``: the people who look into it, while
    the session is suspended; `None`: such a tool never runs."""
    operator: Name = "operator"
    """The role of the people who are asked when no other is named."""
    escalation: Sequence[EscalationStep] = ()
    """Whom else to ask if none of them answers, and when."""
    bus: BusLimits = DEFAULT_LIMITS
    """How much agents may send each other, and who gives up in a deadlock."""
    app: Name | None = None
    """What the app is called: whose `app:` state and memory runs share. `None`: there is no `app:`
    state, and memories are those of the app ``ekiden``, as they are for the command."""
    embedder: Embedder | Callable[[], Embedder] | None = None
    """What memories of the type `vector` are found by, or a function that gives it when it is
    needed; `None`: the embedding that runs in this process, of the extra ``local``."""
    input_guardrails: Sequence[InputGuardrail[Any]] = ()
    """Of every agent of the run, before its own."""
    output_guardrails: Sequence[OutputGuardrail[Any]] = ()
    """The same for what they answer."""
    handoff_guardrails: Sequence[HandoffGuardrail[Any]] = ()
    """The same for what they pass on."""
    handoff_input_filter: HandoffInputFilter | None = None
    """For handoffs that have no filter of their own."""
    call_model_input_filter: CallModelInputFilter | None = None
    """May change what the model is given, just before it is."""
    limits: Limits = field(default_factory=Limits)
    given: Mapping[str, float] = field(default_factory=dict)
    """Limits of this one run, by name, which `with_limits` sets: they are stored with it, and hold
    wherever it goes on."""
    daily: Budget | None = None
    """What all runs of the store may use together in a day, which begins at midnight UTC."""
    returns: Literal["declared", "always"] = "declared"
    """Whether a task may come back to an agent that had it: where the handoff says `allow_return`,
    or always, and then only `Limits.depth` ends a loop."""
    model_retries: WholeAmount = 3
    """How often in a row a model may ask for what does not exist before the run fails."""
    prices: Mapping[str, Price] = field(default_factory=dict)
    """By model, as it is named in agents and runs or in its answers: what it costs."""
    escalate_to: Name | None = None
    """The role of the people who are told of every handoff that is rolled back."""
    compensation_backoff_s: Amount = 0.5
    """How long the first retry of a failed compensation waits; each further one twice as long."""
    rollback_wait_s: Amount = 10.0
    """How long a rollback waits for calls that cannot be stopped, such as threads, before it
    undoes what they did; one that takes longer is left to people."""
    on_busy: Literal["wait", "refuse"] = "wait"
    """When another run has the session."""
    busy_timeout_s: Amount = 30.0
    lease_s: Seconds = 30.0
    """After so long without a sign of life others may take the session over."""
    events: bool = True
    """Whether events that carry no part of the conversation are recorded."""
    trace_include_sensitive_data: bool = True
    """`False`: `Event.error` does not have the text of an error, and no trace, in whichever process
    it is made, shows prompts, answers, arguments, results or reasons of the run. What was said is
    part of the conversation either way."""
    sinks: Sequence[EventSink] = ()
    """Shown every event after it is stored."""
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
        """The same with other limits for the run, by name; `None` leaves one as it is."""
        given = {name: limit for name, limit in limits.items() if limit is not None}
        if not given:
            return self
        changed: Any = given
        return replace(self, limits=replace(self.limits, **changed), given={**self.given, **given})


def memory_for(
    agent: Agent[Any], *, store: Store, user_id: str | None, config: RunConfig
) -> Memory:
    """What the agent remembers for this user; `NoMemory` if it has no memory."""
    if agent.memory is None:
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
    """What a run brings along and a store does not keep."""

    root: Agent[Any] | Team
    config: RunConfig
    context: Any = None
    hooks: RunHooks[Any] | None = None
    live: bool = False
    left_as: SessionStatus = "idle"
    """What the session is when the run is cancelled: `ready` if others are to go on with it."""

    drives: bool = True
    """Whether whoever runs the session also runs those whom it asks; else others do."""
    serves: Container[str] | None = None
    """The agents that may be run here; a session that another one gets is left for others.
    `None`: all of them."""
    is_reachable: bool = True
    """Whether others can know of the session, and want something of it while it runs."""
    is_watched: bool = True
    """Whether anybody may be shown events of the run before it is over."""
    show: Callable[[Event | ModelDelta], None] | None = None
    """Shown what happens here: whoever watches the run that asked this one, however deep."""
    to: str | None = None
    """Whom a new message goes to: an agent's name, or `AUTO`; `None`: who has the session."""
    route_options: Mapping[str, Any] | None = None
    """Of this one message, for the router."""
    keeps_limits: bool = True
    """Whether limits that were stored with the run hold; else those of `config` alone."""
    is_polite: bool = False
    """Whether a message waits, or is refused with `SessionBusy`, while the session has work that
    nobody has taken up yet; else that is broken off, as what waits for people is."""
    along: Callable[[int], DocumentWrite] | None = None
    """What is stored together with the message, made of the number of its run: if that is refused,
    so is the message."""
    handed_over: Callable[[str, int], None] | None = None
    """Told the id of a handoff that a program asked for and the number of its run, when that is
    worked on here."""

    @property
    def team(self) -> Team:
        """Everybody who may get the conversation."""
        if isinstance(self.root, Agent):
            self.root = Team(self.root)
        return self.root

    def check_addressee(self) -> None:
        """`UnknownAgent` or `UserError` if nobody is there whom `to` names."""
        if self.to == AUTO:
            if self.team.router is None:
                raise UserError(
                    "nobody routes in this team: give it a router, as in Team(router.agent, …), "
                    "or name an agent"
                )
        elif self.to is not None:
            self.find(self.to)

    def is_served(self, agent: Agent[Any]) -> bool:
        """Whether the agent may be run here."""
        return self.serves is None or agent.name in self.serves

    @property
    def entry(self) -> Agent[Any]:
        """Who gets a new conversation."""
        return self.root.entry if isinstance(self.root, Team) else self.root

    def find(self, name: str) -> Agent[Any]:
        """A member of the team; `UnknownAgent`."""
        if isinstance(self.root, Agent) and self.root.name == name:
            return self.root
        return self.team[name]
