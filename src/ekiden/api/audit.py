"""The audit log: handoffs and decisions with their actors and reasons, and the verification of the
log."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Protocol, TypeAlias, TypedDict, Unpack

from ekiden.api.methods.called import AsyncStream, Called, calls, lists, streams
from ekiden.api.methods.endpoint import Param, endpoint, filter_by, identifier
from ekiden.api.methods.values import ADDRESSED, Moment, Pages
from ekiden.audit.record import AuditActor, Fault
from ekiden.core.documents import Value, named

AuditedType: TypeAlias = Literal["handoff", "route", "tool_confirmation", "inbox", "guardrail"]
HandoffMove: TypeAlias = Literal[
    "initiated", "validating", "transferring", "completed", "failed", "rolled_back"
]


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry(Value):
    """One audit record: a status change of a handoff, a decision, or a case for a person."""

    id: str
    timestamp: float
    """Seconds since 1970."""
    session_id: str
    type: Literal[AuditedType, "message"]
    """The type of the event. Records of the type `message` (questions between agents) are listed
    only if you filter by a task or a correlation id."""
    move: str | None
    """The new status of a handoff."""
    actor: AuditActor
    source: str | None = named("from")
    """The agent that had the work before."""
    target: str | None = named("to")
    """The agent that received the work, or would have received it."""
    handoff_id: str | None
    task_id: str
    correlation_id: str
    reason: str | None
    code: str | None
    """The code of the reason why a handoff was refused or rolled back."""
    error: str | None
    facts: Mapping[str, Any]
    """Further facts, such as the tool of an approval, the answer or the matching rule."""
    hash: str | None
    """The hash of the record. `null` in records of an earlier version."""
    previous: str | None
    """The hash of the previous audit record. Empty for the first record of the session."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokenRecord(Value):
    """The first altered record of a session."""

    record_id: str
    session_id: str
    fault: Fault
    message: str
    timestamp: float


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditVerification(Value):
    """The result of a verification."""

    ok: bool
    """Whether no broken link was found."""
    sessions: int
    chained: int
    not_chained: int
    events: int
    unhashed: int
    covered: int
    """The number of events whose stored data matches the stored digest, so the data is
    unchanged."""
    uncovered: int
    """The number of events without a digest, because an earlier version wrote them."""
    decisions: int
    """The number of closed inbox items that were not altered."""
    compared: int
    broken: int
    checked: Sequence[str]
    """A description of the checked data, for people."""
    not_checked: Sequence[str]
    """A description of the data that was not checked, for people."""
    first: BrokenRecord | None
    links: Sequence[BrokenRecord]
    """The first broken link of each session, sorted by time, at most 1,000."""


class AuditFilters(TypedDict, total=False):
    """Filters for audit records. A filter that is missing or `None` matches all records."""

    agent: Annotated[
        str | None,
        filter_by("Only records in which this agent is the actor, the source or the target."),
    ]
    task: Annotated[str | None, filter_by("Only records of this task.")]
    correlation: Annotated[str | None, filter_by("Only records with this correlation id.")]
    status: Annotated[
        HandoffMove | None, Param("Only records of handoffs that changed to this status.")
    ]
    session: Annotated[str | None, filter_by("Only records of this session.")]
    handoff: Annotated[str | None, filter_by("Only records of the handoff with this id.")]
    type: Annotated[AuditedType | None, Param("Only records of this type.")]
    since: Annotated[Moment | None, Param("Only entries since this time.")]
    until: Annotated[Moment | None, Param("Only entries before this time.")]
    text: Annotated[
        str | None,
        filter_by(
            "Only records whose agents, reason, error, code, ids or facts contain this text. Case "
            "does not matter."
        ),
    ]


class AuditApi(Protocol):
    """The audit records. They can be read and verified, but not changed."""

    @endpoint("GET", "/audit/records", scope="read")
    def list(
        self,
        *,
        oldest_first: Annotated[bool, Param("List the oldest records first.")] = False,
        **filters: Unpack[AuditFilters],
    ) -> Pages[AuditEntry]:
        """List the records of the audit log, newest first: handoffs and decisions, with their
        actors and reasons.

        With `text`, a page can be short or even empty although later pages have entries. The last
        page is the one without a `next_cursor`.
        """
        ...

    @endpoint(
        "GET", "/audit/records/{record_id:path}", scope="read", problems=(404,), is_whole=True
    )
    def get(
        self,
        record_id: Annotated[
            str,
            Param(
                "The id of a record, `SESSION/NUMBER`, or of a handoff.",
                min_length=1,
                max_length=300,
                pattern=ADDRESSED,
            ),
        ],
    ) -> Pages[AuditEntry]:
        """Get a record, or all records of a handoff, oldest first."""
        ...

    @endpoint("POST", "/audit/verify", scope="read", problems=(404, 413, 504))
    async def verify(
        self,
        *,
        session_id: Annotated[str | None, identifier("Only this session.")] = None,
        against: Annotated[
            str | Iterable[str] | None,
            Param(
                "The text of an earlier export. Each record in it must still exist unchanged in "
                "the store.",
                max_length=100_000_000,
            ),
        ] = None,
        timeout_s: Annotated[
            float,
            Param("The timeout in seconds. After the timeout, the status is 504.", ge=1, le=600),
        ] = 55.0,
    ) -> AuditVerification:
        """Check that no stored record was altered, and report the first broken link.

        If the check takes longer than `timeout_s`, verify the sessions one by one, or use `ekiden
        audit verify`.
        """
        ...

    @endpoint("GET", "/audit/export", scope="read", file="audit.jsonl")
    def export(
        self,
        **filters: Unpack[AuditFilters],
    ) -> AsyncStream[str]:
        """Export audit records as JSON lines, oldest first. The last line is the manifest.

        An export without a manifest is incomplete.
        """
        ...


class CalledAudit(Called):
    """`AuditApi` for synchronous code."""

    list = lists(AuditApi.list)
    get = lists(AuditApi.get)
    verify = calls(AuditApi.verify)
    export = streams(AuditApi.export)
