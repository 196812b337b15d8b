"""Collaborations: agreements on work between agents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Final, Protocol, TypeAlias

from ekiden.api.methods.called import Called, calls, lists
from ekiden.api.methods.endpoint import Param, endpoint, filter_by, identifier, name_of
from ekiden.api.methods.values import PARTY, PLAIN, SAID, Pages
from ekiden.collaboration.record import (
    AgreedTerms,
    Bid,
    CollaborationOutcome,
    Pattern,
    Phase,
    Terms,
)
from ekiden.core.documents import Value


@dataclass(frozen=True, slots=True, kw_only=True)
class CollaborationMessage(Value):
    """One message of a collaboration."""

    id: str
    move: str
    type: str
    by: str
    to: str | None
    """The recipient. `null` means all participants."""
    correlation_id: str | None
    """The id of the message that this message answers; `null` for the first message."""
    created_at: float
    """When the message was created, in seconds since 1970."""
    ttl: float | None
    body: Mapping[str, Any]
    """The content of the message."""
    signature: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CollaborationDetails(Value):
    """A collaboration of agents, and its state."""

    id: str
    pattern: Pattern
    """How the collaboration started: a request to one agent, a call for bids to several agents, or
    a proposal."""
    initiator: str
    participants: Sequence[str]
    """All participants, the initiator first."""
    partner: str | None
    """The agent that the initiator negotiates with; `null` until the initiator has chosen an
    agent."""
    phase: Phase
    phases: Sequence[tuple[Phase, int]]
    """All phases so far, each with its start in microseconds since 1970. The last entry is the
    current phase."""
    messages: Sequence[CollaborationMessage]
    context: Mapping[str, Any]
    """Facts from the initiator, such as `session_id`."""
    terms: Terms | None
    """The current terms."""
    accepted_by: Sequence[str]
    """The participants that accepted the current terms."""
    agreed: AgreedTerms | None
    bids: Sequence[Bid]
    """All bids, including late and withdrawn ones."""
    declined: Sequence[str]
    rounds: int
    max_rounds: int
    deadline_us: int
    """A time in microseconds since 1970. In the phase `discovery`, it is the deadline for bids; in
    the phase `negotiation`, the negotiation expires at this time."""
    expires_us: int
    """The time at which the collaboration expires in any phase, in microseconds since 1970."""
    attempts: int
    """How many times the execution was started."""
    created_at: float
    completed_at: float | None
    """The time at which the collaboration was closed, for any reason, in seconds since 1970; `null`
    while it is open."""
    outcome: CollaborationOutcome | None

    @property
    def collaboration_id(self) -> str:
        """The id of the collaboration."""
        return self.id


CollaborationId: TypeAlias = Annotated[str, identifier("The collaboration's id.")]
_Name: TypeAlias = Annotated[str, Param("", min_length=1, max_length=200, pattern=PARTY)]
_Initiator: TypeAlias = Annotated[
    str, Param("Act as this agent of the team.", min_length=1, max_length=200, pattern=PARTY)
]
_Speaker: TypeAlias = Annotated[
    str, Param("Act as this agent.", min_length=1, max_length=200, pattern=PARTY)
]
_Target: TypeAlias = Annotated[
    str, Param("The agent that gets the proposal.", min_length=1, max_length=200, pattern=PARTY)
]
_Bidder: TypeAlias = Annotated[
    str, Param("The agent whose bid you choose.", min_length=1, max_length=200, pattern=PARTY)
]
_Context: TypeAlias = Annotated[
    Mapping[str, Any] | None, Param("Facts for the executor, such as `session_id`.")
]
_Deadline: TypeAlias = Annotated[
    float | None, Param("Time in seconds for the other agents to answer.", ge=0.001, le=86_000)
]
_Key: TypeAlias = Annotated[
    str | None, name_of("Idempotency key. Messages with the same key are sent only once.")
]
_Reason: TypeAlias = Annotated[str, Param("", max_length=2000)]
_Requirements: TypeAlias = Annotated[Any, Param("JSON.")]
_Terms: TypeAlias = Annotated[
    Mapping[str, Any] | Sequence[Any] | str | int | float | bool,
    Param("The proposed terms, as JSON; not `null`."),
]

_start: Final = partial(
    endpoint,
    "POST",
    "/collaborations",
    scope="admin",
    status=201,
    problems=(404, 409, 413),
    operation="begin",
    location="get",
)
_move: Final = partial(
    endpoint,
    "POST",
    "/collaborations/{collaboration_id}/moves",
    scope="admin",
    problems=(404, 409, 413),
    operation="move",
)


class CollaborationsApi(Protocol):
    """Agreements on work between agents.

    An agreement is executed by a process that runs `Collaborations` with an executor on the same
    store. An invalid move raises a `CollaborationError`: wrong phase, wrong turn, or outdated
    terms.
    """

    @endpoint("GET", "/collaborations", scope="read", cursor=PLAIN)
    def list(
        self,
        *,
        agent: Annotated[str | None, filter_by("Only collaborations of this agent.")] = None,
        phase: Annotated[
            Sequence[Phase], Param("Only collaborations in these phases.", max_length=7)
        ] = (),
    ) -> Pages[CollaborationDetails]:
        """List collaborations, oldest first."""
        ...

    @endpoint("GET", "/collaborations/{collaboration_id}", scope="read", problems=(404, 409))
    async def get(self, collaboration_id: CollaborationId) -> CollaborationDetails:
        """Get a collaboration's state and messages."""
        ...

    @_start(move="request", body="NewRequest")
    async def request(
        self,
        agent: _Initiator,
        target: _Target,
        task: Annotated[str, Param("The task.", max_length=10_000, pattern=SAID)],
        *,
        requirements: _Requirements = None,
        context: _Context = None,
        deadline_s: _Deadline = None,
        key: _Key = None,
    ) -> CollaborationDetails:
        """Start a collaboration as an agent. The move `request` asks another agent to do a task."""
        ...

    @_start(move="propose", body="NewProposal")
    async def propose(
        self,
        agent: _Initiator,
        target: _Target,
        terms: _Terms,
        *,
        max_rounds: Annotated[
            int | None, Param("The maximum number of counter-proposals.", ge=1, le=100)
        ] = None,
        context: _Context = None,
        deadline_s: _Deadline = None,
        key: _Key = None,
    ) -> CollaborationDetails:
        """Propose terms to another agent."""
        ...

    @_start(move="call", body="NewCall")
    async def call(
        self,
        agent: _Initiator,
        capabilities: Annotated[
            Sequence[_Name], Param("The required capabilities.", min_length=1, max_length=50)
        ],
        *,
        task: Annotated[str, Param("The task.", max_length=2000)] = "",
        requirements: _Requirements = None,
        participants: Annotated[
            Sequence[_Name] | None,
            Param(
                "The agents to ask. Default: all other agents of the team.",
                min_length=1,
                max_length=255,
            ),
        ] = None,
        context: _Context = None,
        deadline_s: _Deadline = None,
        key: _Key = None,
    ) -> CollaborationDetails:
        """Call for bids: ask which agents can do a task."""
        ...

    @_move(move="acknowledge", body="Acknowledgement")
    async def acknowledge(
        self, collaboration_id: CollaborationId, agent: _Speaker, *, key: _Key = None
    ) -> CollaborationDetails:
        """Make a move in a collaboration as an agent. The move `acknowledge` accepts a request."""
        ...

    @_move(move="accept", body="Acceptance")
    async def accept(
        self,
        collaboration_id: CollaborationId,
        agent: _Speaker,
        version: Annotated[int, Param("The version number of the terms.", ge=1, le=1000)],
        *,
        key: _Key = None,
    ) -> CollaborationDetails:
        """Accept the current terms."""
        ...

    @_move(move="reject", body="Rejection")
    async def reject(
        self,
        collaboration_id: CollaborationId,
        agent: _Speaker,
        *,
        reason: _Reason = "",
        key: _Key = None,
    ) -> CollaborationDetails:
        """Reject a request, or the current terms."""
        ...

    @_move(move="decline", body="Declination")
    async def decline(
        self,
        collaboration_id: CollaborationId,
        agent: _Speaker,
        *,
        reason: _Reason = "",
        key: _Key = None,
    ) -> CollaborationDetails:
        """Decline a call for bids."""
        ...

    @_move(move="cancel", body="Cancellation")
    async def cancel(
        self,
        collaboration_id: CollaborationId,
        agent: _Speaker,
        *,
        reason: _Reason = "",
        key: _Key = None,
    ) -> CollaborationDetails:
        """Cancel the collaboration before an agreement."""
        ...

    @_move(move="counter", body="Counter")
    async def counter(
        self,
        collaboration_id: CollaborationId,
        agent: _Speaker,
        terms: _Terms,
        *,
        version: Annotated[
            int | None, Param("The version number of the terms that you answer.", ge=1, le=1000)
        ] = None,
        reason: _Reason = "",
        key: _Key = None,
    ) -> CollaborationDetails:
        """Propose different terms."""
        ...

    @_move(move="bid", body="NewBid")
    async def bid(
        self,
        collaboration_id: CollaborationId,
        agent: _Speaker,
        score: Annotated[
            float, Param("How well the agent can do the task, from 0 to 1.", ge=0, le=1)
        ],
        *,
        offer: Annotated[Any, Param("The offered terms, as JSON.")] = None,
        key: _Key = None,
    ) -> CollaborationDetails:
        """Make a bid in answer to a call for bids."""
        ...

    @_move(move="award", body="Award")
    async def award(
        self,
        collaboration_id: CollaborationId,
        agent: _Speaker,
        bidder: _Bidder,
        *,
        key: _Key = None,
    ) -> CollaborationDetails:
        """Accept a bid without changes."""
        ...

    @_move(move="select", body="Selection")
    async def select(
        self,
        collaboration_id: CollaborationId,
        agent: _Speaker,
        bidder: _Bidder,
        *,
        key: _Key = None,
    ) -> CollaborationDetails:
        """Choose one of the bidders, and start to negotiate with this agent."""
        ...


class CalledCollaborations(Called):
    """`CollaborationsApi` for synchronous code."""

    list = lists(CollaborationsApi.list)
    get = calls(CollaborationsApi.get)
    request = calls(CollaborationsApi.request)
    propose = calls(CollaborationsApi.propose)
    call = calls(CollaborationsApi.call)
    acknowledge = calls(CollaborationsApi.acknowledge)
    accept = calls(CollaborationsApi.accept)
    reject = calls(CollaborationsApi.reject)
    decline = calls(CollaborationsApi.decline)
    cancel = calls(CollaborationsApi.cancel)
    counter = calls(CollaborationsApi.counter)
    bid = calls(CollaborationsApi.bid)
    award = calls(CollaborationsApi.award)
    select = calls(CollaborationsApi.select)
