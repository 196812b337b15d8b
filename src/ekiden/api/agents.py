"""Agents: the team, its capabilities, its current work, and routing of a request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Protocol

from ekiden.api.methods.called import Called, calls, lists
from ekiden.api.methods.endpoint import Told, endpoint
from ekiden.api.methods.values import CAPABILITIES, ONE_LINE, PLAIN, SAID, Pages
from ekiden.bus.waits.deadlocks import Deadlock
from ekiden.capabilities.declared import Match
from ekiden.core.conversation.messages import BlockingContext, BlockingStatus
from ekiden.core.documents import Value, left_out
from ekiden.core.integrations.foreign_agents import Durability
from ekiden.core.profile import Capability, Scope, Triggers
from ekiden.core.roles import RouteCause
from ekiden.routing.decision import Method, Strategy


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentFacts(Value):
    """The common fields of an agent's summary and details."""

    name: str
    title: str | None
    description: str | None
    scope: Scope
    model: str | None
    origin: str
    """The source: a kind of file, `python`, or `people`."""
    path: str | None
    tools: Sequence[Any]
    handoffs: Sequence[Any]
    """The agents that it may hand to."""
    can_ask: Sequence[str]
    can_tell: Sequence[str]
    can_ask_people: Sequence[str]
    kind: str
    """`model`, `code`, `supervisor`, `router`, `person`, `runner`, or a registered one."""
    triggers: Triggers
    capabilities: Sequence[Capability]
    available: bool | None
    """`null`: decided at each handoff."""
    max_sessions: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSummary(AgentFacts):
    """A short description of an agent."""

    tools: Sequence[str]
    handoffs: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentDetails(AgentFacts):
    """Everything about an agent."""

    tools: Sequence[Mapping[str, Any]]
    handoffs: Sequence[Mapping[str, Any]]
    handoff_description: str | None
    guardrails: Mapping[str, Any] | None
    memory: Mapping[str, Any] | None
    supervisor: Mapping[str, Any] | None
    runs_on: Sequence[str]
    """Labels that a worker must have to run it."""
    durability: Durability | None
    """For an agent of another framework: the largest unit of work that can be repeated after a
    crash."""
    instructions: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningSession(Value):
    """A session that is being run."""

    session_id: str
    owner: str
    """The process that holds the lease."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentPresence(Value):
    """An agent's sessions, and its waits."""

    agent: str
    known: bool
    """Whether the team has such an agent."""
    router: bool
    """Whether these sessions wait for a message to be routed."""
    sessions: int
    idle: int
    ready: int
    waiting: int
    running: Sequence[RunningSession]
    """They are also counted by status."""
    status: BlockingStatus
    """`internal` if it waits for an agent, `user` if only for people, else `none`."""
    waits: Sequence[BlockingContext]
    """What it waits for, the longest wait first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteMatch(Value):
    """Evidence for an agent."""

    kind: Literal["keyword", "pattern", "semantic"]
    text: str
    """The keyword or pattern; empty for a match by meaning."""
    points: float | None
    """The weight of the evidence: points of a rule, or the probability of a semantic match."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StageScore(Value):
    """The score of one agent at one stage."""

    agent: str
    score: float
    """`rule`: points; `semantic`: probability; comparable within one method only."""
    confidence: int
    """0 to 100."""
    method: Method
    matched_keywords: Sequence[str] | None = left_out()
    matched_patterns: Sequence[str] | None = left_out()


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteScore(StageScore):
    """The score of one agent; without evidence it is 0 with the method `none`."""

    matches: Sequence[RouteMatch]


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteStage(Value):
    """The verdict of one stage."""

    method: Method
    agent: str | None
    """The choice of the stage, even if it is uncertain."""
    confidence: int
    sure: bool
    """Whether the choice needs no further stage."""
    reason: str
    elapsed_ms: float
    usage: Mapping[str, Any] | None = left_out()
    candidates: Sequence[StageScore]
    """Best first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteAnalysis(Value):
    """The agent that would get a request, with the whole decision."""

    agent: str | None
    """`null`: nothing matched."""
    method: Method
    """What decided: a stage, the person (`named`), or the fallback (`default`)."""
    confidence: int
    matched_keywords: Sequence[str]
    matched_patterns: Sequence[str]
    candidates: Sequence[RouteScore]
    """Every agent that can get requests, best first."""
    reason: str
    elapsed_ms: float
    strategy: Strategy
    cause: RouteCause
    stages: Sequence[RouteStage]
    """The verdict of every stage, in order; also why a stage was not available."""
    context: str | None = left_out()
    """Data from the routing model for the agent. A model wrote it: treat it as data."""
    usage: Mapping[str, Any] | None = left_out()
    """The tokens of model calls."""
    fallback: str | None = left_out()
    """What happens to a request that no agent matches, in words."""


class AgentsApi(Protocol):
    """The agents of the team."""

    @endpoint("GET", "/agents", scope="read", is_whole=True)
    def list(self) -> Pages[AgentSummary]:
        """List all agents with description, tools and handoff targets."""
        ...

    @endpoint("GET", "/agents/ps", scope="read", is_whole=True)
    def ps(
        self,
        *,
        idle: Annotated[
            bool,
            Told("Also count idle sessions; this is much slower in a large store."),
        ] = True,
    ) -> Pages[AgentPresence]:
        """Show each agent's sessions, the processes that run them, and what each waits for.

        Agents outside the team are listed if they have sessions or wait.
        """
        ...

    @endpoint("GET", "/agents/deadlocks", scope="read", cursor=PLAIN)
    def deadlocks(self) -> Pages[Deadlock]:
        """List agents that wait, or waited, for each other in a circle, newest first.

        A deadlock is broken by letting one agent give up, the victim. Unbroken deadlocks come
        first.
        """
        ...

    @endpoint("GET", "/agents/{name:path}", scope="read", problems=(404,))
    async def get(
        self,
        name: Annotated[
            str,
            Told(
                "The agent's name; with an @ before it, it is never taken for a fixed word of "
                "the path.",
                min_length=1,
                max_length=201,
                pattern=ONE_LINE,
                has_at=True,
            ),
        ],
    ) -> AgentDetails:
        """Get everything about an agent, including its transfer tools and its file."""
        ...

    @endpoint("GET", "/handoff/capability-match", scope="read", problems=(404,), is_whole=True)
    def match(
        self,
        capabilities: Annotated[
            Sequence[Annotated[str, Told("", max_length=2000, pattern=CAPABILITIES)]],
            Told(
                "Required capabilities, separated by commas; `tag:NAME` is any capability with "
                "that tag.",
                min_length=1,
                max_length=1000,
                examples=(["refunds,invoices"],),
            ),
        ],
        *,
        exclude: Annotated[
            Sequence[Annotated[str, Told("", max_length=4000, pattern=PLAIN)]],
            Told("Agents to leave out, separated by commas.", max_length=1000),
        ] = (),
        min_score: Annotated[float, Told("The lowest mean proficiency.", ge=0, le=1)] = 0.5,
    ) -> Pages[Match]:
        """Find agents by capability, best match first; empty if none matches.

        The score is the mean proficiency over the required capabilities; a missing one counts as 0.
        """
        ...

    @endpoint("POST", "/route", scope="run", problems=(404, 413, 502), body="NewRoute")
    async def route(
        self,
        text: Annotated[
            str,
            Told(
                "May begin with `@auto --strategy=NAME` or `@name`.",
                min_length=1,
                max_length=100_000,
                pattern=SAID,
                examples=("the build fails with error TS2304",),
            ),
        ],
        *,
        strategy: Annotated[
            Strategy | None, Told("The routing strategy; by default as in the settings.")
        ] = None,
    ) -> RouteAnalysis:
        """Show which agent would get a request, and why; nothing is run or stored.

        The strategy may call a model, which costs money: so it needs the scope `run`.
        """
        ...


class CalledAgents(Called):
    """`AgentsApi` for synchronous code."""

    list = lists(AgentsApi.list)
    ps = lists(AgentsApi.ps)
    deadlocks = lists(AgentsApi.deadlocks)
    get = calls(AgentsApi.get)
    match = lists(AgentsApi.match)
    route = calls(AgentsApi.route)
