"""The agents of the team, their capabilities, their current work, and the routing of requests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Protocol

from ekiden.api.methods.called import Called, calls, lists
from ekiden.api.methods.endpoint import Param, endpoint
from ekiden.api.methods.values import CAPABILITIES, ONE_LINE, PLAIN, SAID, Pages
from ekiden.bus.deadlocks import Deadlock
from ekiden.capabilities.declared import Match
from ekiden.core.conversation.messages import BlockingContext, BlockingName
from ekiden.core.dataclass import dataclass
from ekiden.core.documents import Value
from ekiden.core.integrations.foreign_agents import Durability
from ekiden.core.profile import Capability, Scope, Triggers
from ekiden.routing.analysis import (
    RouteAnalysis as RouteAnalysis,
    RouteMatch as RouteMatch,
    RouteScore as RouteScore,
    RouteStage as RouteStage,
    StageScore as StageScore,
)
from ekiden.routing.decision import Strategy


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentFacts(Value):
    """The common fields of an agent's summary and details."""

    name: str
    title: str | None
    description: str | None
    scope: Scope
    model: str | None
    origin: str
    """The origin of the agent: the tool that its agent file was written for (such as `ekiden` or
    `claude`), `python`, or `people`."""
    path: str | None
    tools: Sequence[Any]
    handoffs: Sequence[Any]
    """The agents that this agent may hand off to."""
    can_ask: Sequence[str]
    can_tell: Sequence[str]
    can_ask_people: Sequence[str]
    kind: str
    """The kind of agent: `model`, `code`, `supervisor`, `router`, `person`, `runner`, or a
    registered kind."""
    triggers: Triggers
    capabilities: Sequence[Capability]
    available: bool | None
    """Whether the agent accepts work now. `null` if a function decides this at each handoff."""
    max_sessions: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSummary(AgentFacts):
    """A short description of an agent."""

    tools: Sequence[str]
    handoffs: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentDetails(AgentFacts):
    """All details of an agent."""

    tools: Sequence[Mapping[str, Any]]
    handoffs: Sequence[Mapping[str, Any]]
    handoff_description: str | None
    guardrails: Mapping[str, Any] | None
    memory: Mapping[str, Any] | None
    supervisor: Mapping[str, Any] | None
    runs_on: Sequence[str]
    """Labels that a worker must have to run the agent."""
    durability: Durability | None
    """For an agent of another framework: the maximum work that is repeated after a crash."""
    instructions: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningSession(Value):
    """A session that a process is running."""

    session_id: str
    owner: str
    """The process that runs the session."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentPresence(Value):
    """The sessions of an agent, and the agents or people that it waits for."""

    agent: str
    known: bool
    """Whether the team has an agent of this name."""
    router: bool
    """Whether this entry is the router. The sessions of the router wait for a message that can be
    routed."""
    sessions: int
    idle: int
    ready: int
    waiting: int
    running: Sequence[RunningSession]
    """The sessions that processes are running now."""
    status: BlockingName
    """`internal` if the agent waits for an agent, `user` if it waits only for people, otherwise
    `none`."""
    waits: Sequence[BlockingContext]
    """The agents or people that the agent waits for, longest wait first."""


class AgentsApi(Protocol):
    """The agents of the team."""

    @endpoint("GET", "/agents", scope="read", is_whole=True)
    def list(self) -> Pages[AgentSummary]:
        """List all agents with their description, tools and handoff targets."""
        ...

    @endpoint("GET", "/agents/ps", scope="read", is_whole=True)
    def ps(
        self,
        *,
        idle: Annotated[
            bool, Param("Also count idle sessions. This is much slower in a large store.")
        ] = True,
    ) -> Pages[AgentPresence]:
        """Show the sessions of each agent, the processes that run them, and what each agent waits
        for.

        An agent outside the team is also listed if it has a session or waits for an answer.
        """
        ...

    @endpoint("GET", "/agents/deadlocks", scope="read", cursor=PLAIN)
    def deadlocks(self) -> Pages[Deadlock]:
        """List deadlocks: agents that wait, or waited, for each other in a circle.

        Ekiden resolves a deadlock by cancelling the queries of one agent, the victim. Current
        deadlocks are listed first, then resolved ones, newest first.
        """
        ...

    @endpoint("GET", "/agents/{name:path}", scope="read", problems=(404,))
    async def get(
        self,
        name: Annotated[
            str,
            Param(
                "The agent's name. Write @ before a name that is also a fixed word of a path, such "
                "as `ps`.",
                min_length=1,
                max_length=201,
                pattern=ONE_LINE,
                has_at=True,
            ),
        ],
    ) -> AgentDetails:
        """Get all details of an agent, including its handoff tools and its file."""
        ...

    @endpoint("GET", "/handoff/capability-match", scope="read", problems=(404,), is_whole=True)
    def match(
        self,
        capabilities: Annotated[
            Sequence[Annotated[str, Param("", max_length=2000, pattern=CAPABILITIES)]],
            Param(
                "Required capabilities, separated by commas. `tag:NAME` means any capability with "
                "that tag.",
                min_length=1,
                max_length=1000,
                examples=(["refunds,invoices"],),
            ),
        ],
        *,
        exclude: Annotated[
            Sequence[Annotated[str, Param("", max_length=4000, pattern=PLAIN)]],
            Param("Agents to leave out, separated by commas.", max_length=1000),
        ] = (),
        min_score: Annotated[float, Param("The lowest score to list.", ge=0, le=1)] = 0.5,
    ) -> Pages[Match]:
        """Find agents by capability, best match first. The list is empty if no agent matches.

        The score of an agent is its mean proficiency in the required capabilities. A missing
        capability counts as 0.
        """
        ...

    @endpoint("POST", "/route", scope="run", problems=(404, 413, 502), body="NewRoute")
    async def route(
        self,
        text: Annotated[
            str,
            Param(
                "The request. It may begin with `@auto --strategy=NAME` or `@name`.",
                min_length=1,
                max_length=100_000,
                pattern=SAID,
                examples=("the build fails with error TS2304",),
            ),
        ],
        *,
        strategy: Annotated[
            Strategy | None,
            Param("The routing strategy. Default: the setting `agents.routing.strategy`."),
        ] = None,
    ) -> RouteAnalysis:
        """Show which agent would get a request, and why. Nothing is run or stored.

        The operation needs the scope `run`, because the routing strategy may call a model, which
        costs money.
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
