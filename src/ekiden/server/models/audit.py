"""The audit over HTTP."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from ekiden.server.models.sessions import NewSessionId

AuditedTypeName = Literal["handoff", "route", "tool_confirmation", "inbox", "guardrail"]
MoveName = Literal["initiated", "validating", "transferring", "completed", "failed", "rolled_back"]
FaultName = Literal[
    "changed",
    "missing",
    "cut_off",
    "no_hash",
    "no_digest",
    "no_head",
    "wrong_head",
    "added",
    "unreadable",
    "deleted",
    "differs",
    "damaged_export",
]


class ActorModel(BaseModel):
    """Who did it."""

    kind: Literal["agent", "person", "system", "program"]
    name: str


class AuditRecordModel(BaseModel):
    """One thing that the audit knows: a move of a handoff, a decision, a case for a person."""

    id: str
    timestamp: float = Field(description="Seconds since 1970.")
    session_id: str
    type: AuditedTypeName
    move: str | None = Field(description="The status that a handoff moved to.")
    actor: ActorModel
    source: str | None = Field(alias="from", description="The agent that had the work.")
    target: str | None = Field(alias="to", description="The agent that got it, or was to get it.")
    handoff_id: str | None
    task_id: str
    correlation_id: str
    reason: str | None
    code: str | None
    error: str | None
    facts: dict[str, Any]
    hash: str | None = Field(description="`null` in what an earlier version wrote.")
    previous: str | None = Field(
        description="The hash of the audited event before it; empty for the session's first one."
    )


class NewVerification(BaseModel):
    """What is to be verified."""

    model_config = ConfigDict(extra="forbid")

    session_id: NewSessionId | None = Field(default=None, description="Only this session.")
    against: str | None = Field(
        default=None,
        max_length=100_000_000,
        description="The text of an earlier export: each of its records must still be there as it "
        "was.",
    )
    timeout_s: float = Field(
        default=55.0, ge=1, le=600, description="How long it may take; then it is 504."
    )


class BrokenLinkModel(BaseModel):
    """The first place at which a session's records are not what was written."""

    record_id: str
    session_id: str
    fault: FaultName
    message: str
    timestamp: float


class VerificationModel(BaseModel):
    """What was looked at and what is broken."""

    ok: bool = Field(description="Whether nothing is broken.")
    sessions: int
    chained: int
    not_chained: int
    events: int
    unhashed: int
    covered: int = Field(description="Events that a digest of their commit covers.")
    uncovered: int = Field(description="Events that no digest covers.")
    decisions: int = Field(description="Closed inbox items that are as they were closed.")
    compared: int
    broken: int
    checked: list[str] = Field(description="What was looked at, in words.")
    not_checked: list[str] = Field(description="What was not looked at, in words.")
    first: BrokenLinkModel | None
    links: list[BrokenLinkModel] = Field(
        description="The first broken link of each session, the earliest first; at most 1,000."
    )
