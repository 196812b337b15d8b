"""Sessions over HTTP."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from ekiden.api.texts import MOMENT, MOST_EVENTS, PLAIN, SESSION_ID

SessionStatusName = Literal["idle", "ready", "waiting"]
SessionStateName = Literal["working", "waiting_agent", "waiting_person", "failed", "idle"]
OutcomeName = Literal["done", "waiting", "refused", "failed", "out_of_budget"]
EventTypeName = Literal[
    "route",
    "llm_call",
    "tool_call",
    "handoff",
    "guardrail",
    "tool_confirmation",
    "agent_start",
    "agent_complete",
    "agent_error",
    "message",
    "task",
    "inbox",
]
Number = Annotated[int, Field(ge=1, le=MOST_EVENTS)]
NewSessionId = Annotated[str, Field(min_length=1, max_length=128, pattern=SESSION_ID)]


class SessionModel(BaseModel):
    """A session without what was said in it."""

    session_id: str
    agent: str = Field(description="Who has it.")
    status: SessionStatusName
    outcome: OutcomeName | None = Field(description="How its last run ended.")
    user_id: str | None
    priority: int = Field(description="1 low, 2 normal, 3 high, 4 urgent.")
    meta: dict[str, Any]
    events: int = Field(description="How many there are.")
    owner: str | None = Field(description="The process that runs it now.")
    created_at: float = Field(description="Seconds since 1970.")
    updated_at: float
    state: SessionStateName = Field(
        description="`working`: somebody works on it, or will; `waiting_agent`, `waiting_person`: "
        "it asked them; `failed`: its last run failed or ran out of its budget; `idle`: nothing to "
        "do until somebody writes."
    )
    title: str | None
    run_id: str | None = Field(description="Its last run; `null` before the first.")
    waiting_for: list[str] = Field(
        description="Whom it asked and waits for: agents, or people as `person:ROLE`."
    )


class SessionDetail(SessionModel):
    """A session with its conversation."""

    variables: dict[str, Any]
    items: list[dict[str, Any]]
    handoffs: list[dict[str, Any]]
    metadata: dict[str, Any]


class EventModel(BaseModel):
    """Something that happened; what is empty is left out."""

    event_id: str
    event_type: EventTypeName
    timestamp: float = Field(description="Seconds since 1970.")
    session_id: str
    seq: int = Field(description="1, 2, 3 … in its session, without gaps.")
    agent_name: str | None = None
    step: str | None = None
    duration_ms: float | None = None
    details: dict[str, Any] | None = None
    items: list[dict[str, Any]] | None = Field(default=None, description="What it said.")
    error: str | None = None


class ChainModel(BaseModel):
    """Who had a session, and each handoff."""

    session_id: str
    chain: list[str] = Field(description="Everyone who had it, beginning with `user`.")
    handoffs: list[dict[str, Any]]
    waiting_for: str | None = Field(default=None, description="Left out if it does not wait.")


class ExportModel(BaseModel):
    """A session as a document that can be imported; keep it as safe as the store itself."""

    format: Literal["ekiden.session"]
    version: Literal[1]
    ekiden: str | None
    session: dict[str, Any]
    events: list[EventModel]
    resume: dict[str, Any]


class ImportedModel(BaseModel):
    """A session that was taken over."""

    session_id: str
    agent: str
    user_id: str | None
    events: int


_ONE_PLACE: Any = {
    "anyOf": [
        {"properties": {"at": {"type": "null"}}},
        {"properties": {"before": {"type": "null"}}},
    ]
}


class NewFork(BaseModel):
    """Where to branch off: after an event, or before a message; by default after the last."""

    model_config = ConfigDict(extra="forbid", json_schema_extra=_ONE_PLACE)

    at: Number | None = Field(default=None, description="After this event.")
    before: Annotated[int, Field(ge=2, le=MOST_EVENTS)] | None = Field(
        default=None,
        description="Before the message of this event; not with `at`. Before the first there is "
        "nothing.",
    )
    session_id: NewSessionId | None = Field(default=None, description="The new session's id.")


class ForkModel(BaseModel):
    """A session that was branched off another."""

    session_id: str
    forked_from: str
    forked_at: int
    agent: str
    events: int
    unfinished: bool = Field(description="Whether its run can be resumed.")


class NewRewind(BaseModel):
    """A step back."""

    model_config = ConfigDict(extra="forbid")

    to: Number = Field(description="The event after which the session is to stand.")


class RewindModel(BaseModel):
    """What a step back came to."""

    session_id: str
    to_seq: int
    undone: int = Field(description="How many events do not count any more.")
    agent: str = Field(description="Who has the session now.")


class NewPrune(BaseModel):
    """What may go; without `older_than` and `keep`, what the setting `retention` says."""

    model_config = ConfigDict(extra="forbid")

    older_than: str | None = Field(
        default=None,
        max_length=40,
        pattern=MOMENT,
        description="Sessions that nothing happened in since then: `12h`, `30d`, `8w`, or a date.",
        examples=["30d"],
    )
    keep: int | None = Field(
        default=None, ge=0, le=MOST_EVENTS, description="All but so many, the newest."
    )
    user: str | None = Field(
        default=None,
        min_length=1,
        max_length=500,
        pattern=PLAIN,
        description="Only sessions of this user.",
    )
    status: list[SessionStatusName] = Field(
        default_factory=list,
        max_length=3,
        description="Also those in this state; only idle ones by default.",
    )
    dry_run: bool = Field(default=False, description="Only tell what would go.")


class PrunedModel(BaseModel):
    """What was let go of, or would be."""

    sessions: int
    messages: int
    questions: int
    busy: int = Field(description="Sessions that somebody ran just then, and that stay.")
    dry_run: bool


class SessionHitModel(BaseModel):
    """A place in a session that was found."""

    session_id: str
    title: str | None
    user_id: str | None
    where: Literal["title", "message"]
    seq: int = Field(description="The number of the event that says it; 0 for the title.")
    agent: str | None = Field(description="Whose words they are; `null`: a person's.")
    excerpt: str
    score: float = Field(description="0 to 1, higher is better.")
