"""The phases and moves of a collaboration as tables, and the record of a collaboration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final, Literal, TypeAlias

from ekiden.core.conversation.messages import MessageType
from ekiden.core.documents import Value, to_json

Phase: TypeAlias = Literal[
    "discovery", "negotiation", "agreement", "execution", "completion", "cancelled", "expired"
]

Move: TypeAlias = Literal[
    "call", "bid", "decline", "award", "select", "request", "acknowledge", "propose", "counter",
    "accept", "reject", "cancel", "execute", "complete", "expire",
]  # fmt: skip

SYSTEM: Final = "ekiden"
"""The author of moves that no agent makes. No participant may have this name."""

WAYS: Final[Mapping[Phase | None, frozenset[Phase]]] = {
    None: frozenset({"discovery"}),
    "discovery": frozenset({"negotiation", "cancelled", "expired"}),
    "negotiation": frozenset({"agreement", "cancelled", "expired"}),
    "agreement": frozenset({"execution", "cancelled", "expired"}),
    "execution": frozenset({"completion", "cancelled", "expired"}),
    "completion": frozenset(),
    "cancelled": frozenset(),
    "expired": frozenset(),
}
"""The phases that may follow each phase. One move may skip phases. For example, a request to a
known partner skips the phase `discovery`."""

CLOSED: Final[frozenset[Phase]] = frozenset(
    {phase for phase, following in WAYS.items() if phase is not None and not following}
)
OPEN: Final[tuple[Phase, ...]] = ("discovery", "negotiation", "agreement", "execution")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """The phases in which a move is allowed, and the type of its message."""

    type: MessageType
    fits: tuple[Phase, ...] = ()
    """The phases in which the move is allowed. If empty, the move starts a collaboration."""
    by_system: bool = False


MOVES: Final[Mapping[Move, Rule]] = {
    "call": Rule(type="broadcast"),
    "bid": Rule(type="acknowledge", fits=("discovery",)),
    "decline": Rule(type="reject", fits=("discovery",)),
    "award": Rule(type="broadcast", fits=("discovery",)),
    "select": Rule(type="broadcast", fits=("discovery",)),
    "request": Rule(type="request"),
    "acknowledge": Rule(type="acknowledge", fits=("negotiation",)),
    "propose": Rule(type="negotiate"),
    "counter": Rule(type="negotiate", fits=("negotiation",)),
    "accept": Rule(type="acknowledge", fits=("negotiation",)),
    "reject": Rule(type="reject", fits=("negotiation",)),
    "cancel": Rule(type="cancel", fits=OPEN),
    "execute": Rule(type="notify", fits=("agreement",), by_system=True),
    "complete": Rule(type="notify", fits=("execution",), by_system=True),
    "expire": Rule(type="notify", fits=OPEN, by_system=True),
}
"""All moves with their rules."""

Pattern: TypeAlias = Literal["request", "broadcast", "negotiate"]
"""How a collaboration starts. `request`: a request to one agent. `broadcast`: a call for bids to
several agents. `negotiate`: a proposal."""

BidState: TypeAlias = Literal["counts", "late", "withdrawn"]

OutcomeStatus: TypeAlias = Literal["completed", "failed", "rejected", "cancelled", "expired"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtocolMessage:
    """One message of the protocol. The signature is made with the key of the store. The signed
    content includes the true sender."""

    id: str
    collaboration: str
    move: Move
    type: MessageType
    by: str
    to: str | None
    """The recipient. `None` means all participants."""
    correlation_id: str | None
    """The id of the message that this message answers; `None` for the first message."""
    created_at: float
    """When the message was created, in seconds since 1970 on the store's clock."""
    ttl: float | None
    body: Mapping[str, Any]
    """The content of the move, as JSON."""
    signature: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms(Value):
    """Proposed terms. Terms are immutable: changed terms get a new version."""

    version: int
    by: str
    """The agent that proposed the terms."""
    body: Any
    digest: str
    message_id: str
    """The id of the message that proposed the terms. An answer to this message has this id as its
    `correlation_id`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgreedTerms(Value):
    """The terms that both agents accepted."""

    terms: Terms
    by: tuple[str, ...]
    """The participants that accepted, in order."""
    at_us: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Bid(Value):
    """A participant's answer to a call."""

    agent: str
    score: float
    """How well the agent can do the task, from 0 to 1."""
    offer: Any
    """The offered terms, as JSON."""
    state: BidState
    at_us: int
    message_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CollaborationOutcome(Value):
    """How a collaboration ended."""

    status: OutcomeStatus
    by: str
    """The agent that ended the collaboration; ``ekiden`` for the system."""
    reason: str = ""
    result: Any = None
    """The result of the execution, as JSON."""

    @property
    def ok(self) -> bool:
        """Whether the agreement was executed successfully."""
        return self.status == "completed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Collaboration:
    """A collaboration of agents, and its state.

    For example::

        found = await collaborations.get(collaboration_id)
        print(found.phase, found.agreed, found.outcome)
    """

    id: str
    pattern: Pattern
    initiator: str
    participants: tuple[str, ...]
    """All participants, the initiator first."""
    partner: str | None
    """The agent that the initiator negotiates with; `None` until the initiator has chosen one."""
    phase: Phase
    phases: tuple[tuple[Phase, int], ...]
    """All phases so far, each with its start in microseconds since 1970. The last entry is the
    current phase."""
    messages: tuple[ProtocolMessage, ...]
    context: Mapping[str, Any] = field(default_factory=dict)
    """Facts from the initiator, such as ``session_id``, as JSON."""
    terms: Terms | None = None
    """The terms that were proposed last, in a proposal, a request or a call for bids."""
    accepted_by: tuple[str, ...] = ()
    """The participants that accepted the current terms."""
    agreed: AgreedTerms | None = None
    bids: tuple[Bid, ...] = ()
    """All bids, including late and withdrawn bids. `ranked_bids` has only the valid bids."""
    declined: tuple[str, ...] = ()
    rounds: int = 0
    max_rounds: int = 0
    deadline_us: int
    """A time in microseconds since 1970. In the phase `discovery`, this is the deadline for bids.
    In the phase `negotiation`, this is the time at which the negotiation expires."""
    expires_us: int
    """The time at which the collaboration expires in any phase, in microseconds since 1970. A
    negotiation can expire earlier: see `deadline_us`."""
    attempts: int = 0
    """How many times the execution of the agreement was started."""
    outcome: CollaborationOutcome | None = None
    version: int = 0
    """The version of the stored collaboration. Every change increases it."""

    @property
    def is_closed(self) -> bool:
        """Whether the collaboration is closed. A closed collaboration never changes."""
        return self.phase in CLOSED

    @property
    def created_at(self) -> float:
        """When the collaboration was created, in seconds since 1970."""
        return self.phases[0][1] / 1e6

    @property
    def completed_at(self) -> float | None:
        """The time at which the collaboration was closed, for any reason, in seconds since 1970;
        `None` while it is open."""
        return self.phases[-1][1] / 1e6 if self.is_closed else None

    @property
    def sides(self) -> tuple[str, ...]:
        """The initiator, and the partner if the initiator has chosen one."""
        return (self.initiator,) if self.partner is None else (self.initiator, self.partner)

    @property
    def due_us(self) -> int | None:
        """The next time at which the collaboration expires, in microseconds since 1970: in the
        phase `negotiation`, the earlier of `deadline_us` and `expires_us`; in other phases,
        `expires_us`. `None` after the collaboration was closed."""
        if self.is_closed:
            return None
        is_negotiating = self.phase == "negotiation"
        return min(self.deadline_us, self.expires_us) if is_negotiating else self.expires_us

    @property
    def ranked_bids(self) -> list[Bid]:
        """The valid bids, best score first. Bids with the same score are sorted by time, earliest
        first."""
        counted = [bid for bid in self.bids if bid.state == "counts"]
        return sorted(counted, key=lambda bid: (-bid.score, bid.at_us, bid.agent))

    @property
    def unanswered(self) -> tuple[str, ...]:
        """The agents that have neither bid nor declined, after a call for bids."""
        answered = {bid.agent for bid in self.bids} | set(self.declined)
        return tuple(name for name in self.participants[1:] if name not in answered)

    def message(self, message_id: str | None) -> ProtocolMessage | None:
        """The message with this id; `None` if the collaboration has no such message."""
        return next((each for each in self.messages if each.id == message_id), None)

    def other_side(self, agent: str) -> str | None:
        """The agent that negotiates with `agent`: the initiator if `agent` is the partner,
        otherwise the partner."""
        return self.initiator if agent == self.partner else self.partner

    def to_json(self) -> dict[str, Any]:
        """The fields as JSON."""
        return {
            "id": self.id,
            "pattern": self.pattern,
            "initiator": self.initiator,
            "participants": list(self.participants),
            "partner": self.partner,
            "phase": self.phase,
            "phases": [list(each) for each in self.phases],
            "messages": [message_json(each) for each in self.messages],
            "context": dict(self.context),
            "terms": to_json(self.terms),
            "accepted_by": list(self.accepted_by),
            "agreed": to_json(self.agreed),
            "bids": to_json(self.bids),
            "declined": list(self.declined),
            "rounds": self.rounds,
            "max_rounds": self.max_rounds,
            "deadline_us": self.deadline_us,
            "expires_us": self.expires_us,
            "attempts": self.attempts,
            "created_at": self.created_at,
            "completed_at": self.completed_at,
            "outcome": to_json(self.outcome),
        }


def message_json(message: ProtocolMessage) -> dict[str, Any]:
    """The form in which a collaboration stores a message: all fields except the id of the
    collaboration."""
    names = (each.name for each in fields(message) if each.name != "collaboration")
    return {**{name: getattr(message, name) for name in names}, "body": dict(message.body)}
