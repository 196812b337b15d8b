"""Agents: who is there, what they can do, what they do now, and who would get a request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Protocol

from ekiden.api.called import Called, calls, lists
from ekiden.api.endpoint import Told, endpoint
from ekiden.api.pages import Pages
from ekiden.api.texts import CAPABILITIES, ONE_LINE, PLAIN, SAID
from ekiden.bus.waits.deadlocks import Deadlock
from ekiden.capabilities.match import Match
from ekiden.core.conversation.messages import BlockingContext, BlockingStatus
from ekiden.core.foreign import Durability
from ekiden.core.profile import Capability, Scope, Triggers
from ekiden.core.roles import RouteCause
from ekiden.core.values.documents import Value, left_out
from ekiden.routing.decision import Method, Strategy


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentFacts(Value):
    """What a list of agents and everything about one have in common."""

    name: str
    title: str | None
    description: str | None
    scope: Scope
    model: str | None
    origin: str
    """Where it comes from: a kind of file, `python`, or `people`."""
    path: str | None
    tools: Sequence[Any]
    handoffs: Sequence[Any]
    """Whom it may hand to."""
    can_ask: Sequence[str]
    can_tell: Sequence[str]
    can_ask_people: Sequence[str]
    kind: str
    """`model`, `code`, `supervisor`, `router`, `person`, `runner`, or a registered one."""
    triggers: Triggers
    capabilities: Sequence[Capability]
    available: bool | None
    """`null`: that is asked when it matters."""
    max_sessions: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSummary(AgentFacts):
    """An agent in short."""

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
    """Of an agent of another framework: what is repeated after a crash, at most."""
    instructions: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningSession(Value):
    """A session that is being run."""

    session_id: str
    owner: str
    """Who has the lease."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentPresence(Value):
    """The sessions that an agent has, and its waits."""

    agent: str
    known: bool
    """Whether the team has such an agent."""
    router: bool
    """Whether these sessions wait for a message that can be routed."""
    sessions: int
    idle: int
    ready: int
    waiting: int
    running: Sequence[RunningSession]
    """They are counted by their status, too."""
    status: BlockingStatus
    """`internal` if it waits for an agent, `user` if only for people, else `none`."""
    waits: Sequence[BlockingContext]
    """For whom it waits, the longest wait first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteMatch(Value):
    """Something that speaks for an agent."""

    kind: Literal["keyword", "pattern", "semantic"]
    text: str
    """The keyword or pattern; empty for what it means as a whole."""
    points: float | None
    """What it counts: points of the rules, or the probability by meaning."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StageScore(Value):
    """How one agent did at one stage."""

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
    """How one agent did; one that nothing speaks for has 0 and the method `none`."""

    matches: Sequence[RouteMatch]


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteStage(Value):
    """What one stage said."""

    method: Method
    agent: str | None
    """Its choice; also named when it is not sure."""
    confidence: int
    sure: bool
    """Whether the choice stands on its own, without asking further."""
    reason: str
    elapsed_ms: float
    usage: Mapping[str, Any] | None = left_out()
    candidates: Sequence[StageScore]
    """Best first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteAnalysis(Value):
    """Which agent would take a request, and everything that led to it."""

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
    """What every stage said, in order; also why one could not be asked."""
    context: str | None = left_out()
    """What a model that decided passes on to the agent. A model wrote it: it is data."""
    usage: Mapping[str, Any] | None = left_out()
    """What asking models cost."""
    fallback: str | None = left_out()
    """What becomes of a request that no agent matches, in words."""


class Agents(Protocol):
    """Who is there."""

    @endpoint("GET", "/agents", scope="read", is_whole=True)
    def list(self) -> Pages[AgentSummary]:
        """List the agents, all of them: what each is for, what it may use and hand to."""
        ...

    @endpoint("GET", "/agents/ps", scope="read", is_whole=True)
    def ps(
        self,
        *,
        idle: Annotated[
            bool,
            Told(
                "Count sessions that nobody works on, too; without them it is much quicker in a "
                "large store."
            ),
        ] = True,
    ) -> Pages[AgentPresence]:
        """Show how many sessions each agent has, who is running them, and who waits for whom.

        Agents that the team does not have are listed too, if they have sessions or wait.
        """
        ...

    @endpoint("GET", "/agents/deadlocks", scope="read", cursor=PLAIN)
    def deadlocks(self) -> Pages[Deadlock]:
        """List agents that wait, or waited, for each other in a circle, the newest first.

        Each was broken by letting one of them give up, the victim; one that nobody has broken yet
        comes before all others.
        """
        ...

    @endpoint("GET", "/agents/{name:path}", scope="read", problems=(404,))
    async def get(
        self,
        name: Annotated[
            str,
            Told(
                "The agent's name; with an @ before it, it is never one of the words that stand "
                "here besides.",
                min_length=1,
                max_length=201,
                pattern=ONE_LINE,
                has_at=True,
            ),
        ],
    ) -> AgentDetails:
        """Everything about an agent, its transfer tools and its file included."""
        ...

    @endpoint("GET", "/handoff/capability-match", scope="read", problems=(404,), is_whole=True)
    def match(
        self,
        capabilities: Annotated[
            Sequence[Annotated[str, Told("", max_length=2000, pattern=CAPABILITIES)]],
            Told(
                "What is required, with commas between; `tag:NAME` is any capability with that "
                "tag.",
                min_length=1,
                max_length=1000,
                examples=(["refunds,invoices"],),
            ),
        ],
        *,
        exclude: Annotated[
            Sequence[Annotated[str, Told("", max_length=4000, pattern=PLAIN)]],
            Told("Agents to leave out, with commas between.", max_length=1000),
        ] = (),
        min_score: Annotated[float, Told("The mean proficiency that is enough.", ge=0, le=1)] = 0.5,
    ) -> Pages[Match]:
        """Find the agents that have certain capabilities, the best first; empty if none has them.

        The score is the mean proficiency over what is required; what is missing counts 0.
        """
        ...

    @endpoint("POST", "/route", scope="run", problems=(404, 413, 502), body="NewRoute")
    async def route(
        self,
        text: Annotated[
            str,
            Told(
                "`@auto --strategy=NAME` and `@name` at the beginning are understood.",
                min_length=1,
                max_length=100_000,
                pattern=SAID,
                examples=("the build fails with error TS2304",),
            ),
        ],
        *,
        strategy: Annotated[
            Strategy | None, Told("How to choose; else as the settings say.")
        ] = None,
    ) -> RouteAnalysis:
        """Show which agent would get a request, and why; nothing is run or stored.

        A model may be asked, as the strategy says, which costs: so it needs the scope `run`.
        """
        ...


class CalledAgents(Called):
    """`Agents`, called."""

    list = lists(Agents.list)
    ps = lists(Agents.ps)
    deadlocks = lists(Agents.deadlocks)
    get = calls(Agents.get)
    match = lists(Agents.match)
    route = calls(Agents.route)
