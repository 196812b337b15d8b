"""Collaborations over HTTP."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

from ekiden.api.texts import ONE_LINE, PARTY, SAID

PhaseName: TypeAlias = Literal[
    "discovery", "negotiation", "agreement", "execution", "completion", "cancelled", "expired"
]
PartyName: TypeAlias = Annotated[str, Field(min_length=1, max_length=200, pattern=PARTY)]
Key: TypeAlias = Annotated[
    str | None,
    Field(
        min_length=1,
        max_length=200,
        pattern=ONE_LINE,
        description="What is said with a key is said once, however often it is sent.",
    ),
]


class TermsModel(BaseModel):
    """Terms on the table."""

    version: int
    by: str
    body: Any
    digest: str
    message_id: str


class AgreedModel(BaseModel):
    """What both sides accepted."""

    terms: TermsModel
    by: list[str]
    at_us: int


class BidModel(BaseModel):
    """A participant's answer to a call."""

    agent: str
    score: float
    offer: Any
    state: Literal["counts", "late", "withdrawn"]
    at_us: int
    message_id: str


class ProtocolMessageModel(BaseModel):
    """What one said."""

    id: str
    move: str
    type: str
    by: str
    to: str | None
    correlation_id: str | None
    created_at: float
    ttl: float | None
    body: dict[str, Any]
    signature: str


class OutcomeModel(BaseModel):
    """How a collaboration ended."""

    status: Literal["completed", "failed", "rejected", "cancelled", "expired"]
    by: str
    reason: str
    result: Any


class CollaborationModel(BaseModel):
    """Agents that agree on work, and what becomes of it."""

    id: str
    pattern: Literal["request", "broadcast", "negotiate"]
    initiator: str
    participants: list[str]
    partner: str | None
    phase: PhaseName
    phases: list[tuple[PhaseName, int]]
    messages: list[ProtocolMessageModel]
    context: dict[str, Any]
    terms: TermsModel | None
    accepted_by: list[str]
    agreed: AgreedModel | None
    bids: list[BidModel]
    declined: list[str]
    rounds: int
    max_rounds: int
    deadline_us: int
    expires_us: int
    attempts: int
    created_at: float
    completed_at: float | None
    outcome: OutcomeModel | None


Something: TypeAlias = dict[str, Any] | list[Any] | str | int | float | bool
"""JSON that is not `null`."""


class _Opening(BaseModel):
    model_config = ConfigDict(extra="forbid")

    agent: PartyName = Field(description="In whose name: an agent of the team.")
    context: dict[str, Any] | None = Field(
        default=None, description="For whoever executes it, such as `session_id`."
    )
    deadline_s: float | None = Field(
        default=None, ge=0.001, le=86_000, description="How long the others have to answer."
    )
    key: Key = None


class NewRequest(_Opening):
    """That another agent take work over."""

    move: Literal["request"]
    target: PartyName
    task: str = Field(max_length=10_000, pattern=SAID, description="What is to be done.")
    requirements: Any = Field(default=None, description="JSON.")


class NewProposal(_Opening):
    """Terms for another agent."""

    move: Literal["propose"]
    target: PartyName
    terms: Something = Field(description="JSON.")
    max_rounds: int | None = Field(default=None, ge=1, le=100)


class NewCall(_Opening):
    """The question who can do something."""

    move: Literal["call"]
    capabilities: list[PartyName] = Field(min_length=1, max_length=50)
    task: str = Field(default="", max_length=2000, description="What is to be done.")
    requirements: Any = Field(default=None, description="JSON.")
    participants: list[PartyName] | None = Field(
        default=None,
        min_length=1,
        max_length=255,
        description="Who is called; without them the other agents of the team.",
    )


NewCollaboration: TypeAlias = Annotated[
    NewRequest | NewProposal | NewCall, Field(discriminator="move")
]


class _Saying(BaseModel):
    model_config = ConfigDict(extra="forbid")

    agent: PartyName = Field(description="In whose name.")
    key: Key = None


Reason: TypeAlias = Annotated[str, Field(max_length=2000)]


class Acknowledgement(_Saying):
    """Yes to a request, as it is."""

    move: Literal["acknowledge"]


class Acceptance(_Saying):
    """Yes to terms."""

    move: Literal["accept"]
    version: int = Field(ge=1, le=1000, description="Of the terms.")


class Rejection(_Saying):
    """No to the terms on the table, or to a call, or the end of it all."""

    move: Literal["reject", "decline", "cancel"]
    reason: Reason = ""


class Counter(_Saying):
    """Other terms."""

    move: Literal["counter"]
    terms: Something = Field(description="JSON.")
    version: int | None = Field(default=None, ge=1, le=1000, description="Of the terms answered.")
    reason: Reason = ""


class NewBid(_Saying):
    """Yes to a call."""

    move: Literal["bid"]
    score: float = Field(ge=0, le=1, description="How well it can be done.")
    offer: Any = Field(default=None, description="On what terms; JSON.")


class Choice(_Saying):
    """Which bid is taken: as it is, or to negotiate with the bidder."""

    move: Literal["award", "select"]
    bidder: PartyName


NewMove: TypeAlias = Annotated[
    Acknowledgement | Acceptance | Rejection | Counter | NewBid | Choice,
    Field(discriminator="move"),
]
