"""Collaborations: agents that agree on work."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Final, Protocol, TypeAlias

from ekiden.api.called import Called, calls, lists
from ekiden.api.endpoint import Told, endpoint
from ekiden.api.pages import Pages
from ekiden.api.texts import ONE_LINE, PARTY, PLAIN, SAID, SESSION_ID
from ekiden.collaboration.protocol.moves import Phase
from ekiden.collaboration.protocol.record import (
    AgreedTerms,
    Bid,
    CollaborationOutcome,
    Pattern,
    Terms,
)
from ekiden.core.values.documents import Value


@dataclass(frozen=True, slots=True, kw_only=True)
class CollaborationMessage(Value):
    """What one said."""

    id: str
    move: str
    type: str
    by: str
    to: str | None
    """`null`: all participants."""
    correlation_id: str | None
    """The message that it answers; `null` for the one that begins."""
    created_at: float
    """Seconds since 1970."""
    ttl: float | None
    body: Mapping[str, Any]
    """What the move says."""
    signature: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CollaborationDetails(Value):
    """Agents that agree on work, and what becomes of it."""

    id: str
    pattern: Pattern
    """How it began: a request to one, a call to several, or a proposal."""
    initiator: str
    participants: Sequence[str]
    """Everybody who may speak, the initiator first."""
    partner: str | None
    """With whom the initiator negotiates; `null` while that is to be found out."""
    phase: Phase
    phases: Sequence[tuple[Phase, int]]
    """All phases so far and when they began, in microseconds; the last one is `phase`."""
    messages: Sequence[CollaborationMessage]
    context: Mapping[str, Any]
    """What the initiator gave along, such as `session_id`."""
    terms: Terms | None
    """Those on the table."""
    accepted_by: Sequence[str]
    """Who accepted those."""
    agreed: AgreedTerms | None
    bids: Sequence[Bid]
    """All of them, late and withdrawn ones, too."""
    declined: Sequence[str]
    rounds: int
    max_rounds: int
    deadline_us: int
    """In discovery: bids count until then. In negotiation: it is expired from then on."""
    expires_us: int
    """It is expired from then on, whatever its phase."""
    attempts: int
    """How often its execution was begun."""
    created_at: float
    completed_at: float | None
    """When it was closed, in whatever way; `null` while it is open."""
    outcome: CollaborationOutcome | None

    @property
    def collaboration_id(self) -> str:
        """Its id."""
        return self.id


CollaborationId: TypeAlias = Annotated[
    str, Told("The collaboration's id.", min_length=1, max_length=128, pattern=SESSION_ID)
]
_Name: TypeAlias = Annotated[str, Told("", min_length=1, max_length=200, pattern=PARTY)]
_Initiator: TypeAlias = Annotated[
    str,
    Told("In whose name: an agent of the team.", min_length=1, max_length=200, pattern=PARTY),
]
_Speaker: TypeAlias = Annotated[
    str, Told("In whose name.", min_length=1, max_length=200, pattern=PARTY)
]
_Target: TypeAlias = Annotated[
    str, Told("The other agent.", min_length=1, max_length=200, pattern=PARTY)
]
_Bidder: TypeAlias = Annotated[
    str, Told("Whose bid is taken.", min_length=1, max_length=200, pattern=PARTY)
]
_Context: TypeAlias = Annotated[
    Mapping[str, Any] | None, Told("For whoever executes it, such as `session_id`.")
]
_Deadline: TypeAlias = Annotated[
    float | None, Told("How long the others have to answer.", ge=0.001, le=86_000)
]
_Key: TypeAlias = Annotated[
    str | None,
    Told(
        "What is said with a key is said once, however often it is sent.",
        min_length=1,
        max_length=200,
        pattern=ONE_LINE,
    ),
]
_Reason: TypeAlias = Annotated[str, Told("", max_length=2000)]
_Requirements: TypeAlias = Annotated[Any, Told("JSON.")]
_Terms: TypeAlias = Annotated[
    Mapping[str, Any] | Sequence[Any] | str | int | float | bool, Told("JSON, but not `null`.")
]

_begins: Final = partial(
    endpoint,
    "POST",
    "/collaborations",
    scope="admin",
    status=201,
    problems=(404, 409, 413),
    operation="begin",
    location="get",
)
_moves: Final = partial(
    endpoint,
    "POST",
    "/collaborations/{collaboration_id}/moves",
    scope="admin",
    problems=(404, 409, 413),
    operation="move",
)


class Collaborations(Protocol):
    """Agents that agree on work.

    What is agreed is executed by whoever runs `Collaborations` with an executor on the same store.
    Moves that do not fit are a `CollaborationError`: the phase, the turn, terms that are not on the
    table any more.
    """

    @endpoint("GET", "/collaborations", scope="read", cursor=PLAIN)
    def list(
        self,
        *,
        agent: Annotated[
            str | None,
            Told("Only those in which this agent takes part.", max_length=200, pattern=PLAIN),
        ] = None,
        phase: Annotated[Sequence[Phase], Told("Only those in these phases.", max_length=7)] = (),
    ) -> Pages[CollaborationDetails]:
        """List collaborations, the oldest first."""
        ...

    @endpoint("GET", "/collaborations/{collaboration_id}", scope="read", problems=(404, 409))
    async def get(self, collaboration_id: CollaborationId) -> CollaborationDetails:
        """A collaboration as it stands, with everything that was said in it."""
        ...

    @_begins(move="request", body="NewRequest")
    async def request(
        self,
        agent: _Initiator,
        target: _Target,
        task: Annotated[str, Told("What is to be done.", max_length=10_000, pattern=SAID)],
        *,
        requirements: _Requirements = None,
        context: _Context = None,
        deadline_s: _Deadline = None,
        key: _Key = None,
    ) -> CollaborationDetails:
        """Begin a collaboration in the name of an agent: ask another one to take work over."""
        ...

    @_begins(move="propose", body="NewProposal")
    async def propose(
        self,
        agent: _Initiator,
        target: _Target,
        terms: _Terms,
        *,
        max_rounds: Annotated[
            int | None, Told("How many counter-proposals there may be.", ge=1, le=100)
        ] = None,
        context: _Context = None,
        deadline_s: _Deadline = None,
        key: _Key = None,
    ) -> CollaborationDetails:
        """Propose terms to another agent."""
        ...

    @_begins(move="call", body="NewCall")
    async def call(
        self,
        agent: _Initiator,
        capabilities: Annotated[
            Sequence[_Name], Told("What is required.", min_length=1, max_length=50)
        ],
        *,
        task: Annotated[str, Told("What is to be done.", max_length=2000)] = "",
        requirements: _Requirements = None,
        participants: Annotated[
            Sequence[_Name] | None,
            Told(
                "Who is called; without them the other agents of the team.",
                min_length=1,
                max_length=255,
            ),
        ] = None,
        context: _Context = None,
        deadline_s: _Deadline = None,
        key: _Key = None,
    ) -> CollaborationDetails:
        """Call for bids: ask who can do something."""
        ...

    @_moves(move="acknowledge", body="Acknowledgement")
    async def acknowledge(
        self, collaboration_id: CollaborationId, agent: _Speaker, *, key: _Key = None
    ) -> CollaborationDetails:
        """Say something in a collaboration in the name of an agent: yes to a request, as it is."""
        ...

    @_moves(move="accept", body="Acceptance")
    async def accept(
        self,
        collaboration_id: CollaborationId,
        agent: _Speaker,
        version: Annotated[int, Told("Of the terms.", ge=1, le=1000)],
        *,
        key: _Key = None,
    ) -> CollaborationDetails:
        """Accept the terms on the table."""
        ...

    @_moves(move="reject", body="Rejection")
    async def reject(
        self,
        collaboration_id: CollaborationId,
        agent: _Speaker,
        *,
        reason: _Reason = "",
        key: _Key = None,
    ) -> CollaborationDetails:
        """Reject a request, or the terms on the table."""
        ...

    @_moves(move="decline", body="Declination")
    async def decline(
        self,
        collaboration_id: CollaborationId,
        agent: _Speaker,
        *,
        reason: _Reason = "",
        key: _Key = None,
    ) -> CollaborationDetails:
        """Decline a call."""
        ...

    @_moves(move="cancel", body="Cancellation")
    async def cancel(
        self,
        collaboration_id: CollaborationId,
        agent: _Speaker,
        *,
        reason: _Reason = "",
        key: _Key = None,
    ) -> CollaborationDetails:
        """End it before anything is agreed."""
        ...

    @_moves(move="counter", body="Counter")
    async def counter(
        self,
        collaboration_id: CollaborationId,
        agent: _Speaker,
        terms: _Terms,
        *,
        version: Annotated[int | None, Told("Of the terms answered.", ge=1, le=1000)] = None,
        reason: _Reason = "",
        key: _Key = None,
    ) -> CollaborationDetails:
        """Propose other terms."""
        ...

    @_moves(move="bid", body="NewBid")
    async def bid(
        self,
        collaboration_id: CollaborationId,
        agent: _Speaker,
        score: Annotated[float, Told("How well it can be done.", ge=0, le=1)],
        *,
        offer: Annotated[Any, Told("On what terms; JSON.")] = None,
        key: _Key = None,
    ) -> CollaborationDetails:
        """Bid for a call."""
        ...

    @_moves(move="award", body="Award")
    async def award(
        self,
        collaboration_id: CollaborationId,
        agent: _Speaker,
        bidder: _Bidder,
        *,
        key: _Key = None,
    ) -> CollaborationDetails:
        """Take a bid as it is."""
        ...

    @_moves(move="select", body="Selection")
    async def select(
        self,
        collaboration_id: CollaborationId,
        agent: _Speaker,
        bidder: _Bidder,
        *,
        key: _Key = None,
    ) -> CollaborationDetails:
        """Negotiate with a bidder."""
        ...


class CalledCollaborations(Called):
    """`Collaborations`, called."""

    list = lists(Collaborations.list)
    get = calls(Collaborations.get)
    request = calls(Collaborations.request)
    propose = calls(Collaborations.propose)
    call = calls(Collaborations.call)
    acknowledge = calls(Collaborations.acknowledge)
    accept = calls(Collaborations.accept)
    reject = calls(Collaborations.reject)
    decline = calls(Collaborations.decline)
    cancel = calls(Collaborations.cancel)
    counter = calls(Collaborations.counter)
    bid = calls(Collaborations.bid)
    award = calls(Collaborations.award)
    select = calls(Collaborations.select)
