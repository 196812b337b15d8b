"""The audit: who handed what to whom, who decided and why, and whether that is what was written."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Protocol, TypeAlias, TypedDict, Unpack

from ekiden.api.called import Called, calls, lists, streams
from ekiden.api.endpoint import Told, endpoint
from ekiden.api.pages import Pages
from ekiden.api.streams import AsyncStream
from ekiden.api.texts import ADDRESSED, PLAIN, SESSION_ID, Moment
from ekiden.audit.findings import Fault
from ekiden.audit.record import AuditActor
from ekiden.core.values.documents import Value, named

AuditedType: TypeAlias = Literal["handoff", "route", "tool_confirmation", "inbox", "guardrail"]
HandoffMove: TypeAlias = Literal[
    "initiated", "validating", "transferring", "completed", "failed", "rolled_back"
]


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry(Value):
    """One thing that the audit knows: a move of a handoff, a decision, a case for a person."""

    id: str
    timestamp: float
    """Seconds since 1970."""
    session_id: str
    type: Literal[AuditedType, "message"]
    """`message` is a question between agents; it is listed only with a task or a correlation."""
    move: str | None
    """The status that a handoff moved to."""
    actor: AuditActor
    source: str | None = named("from")
    """The agent that had the work."""
    target: str | None = named("to")
    """The agent that got it, or was to get it."""
    handoff_id: str | None
    task_id: str
    correlation_id: str
    reason: str | None
    code: str | None
    """Why a handoff was refused or undone, for programs."""
    error: str | None
    facts: Mapping[str, Any]
    """What else the event tells: the tool that was asked about, the answer, the rule that fit."""
    hash: str | None
    """`null` in what an earlier version wrote."""
    previous: str | None
    """The hash of the audited event before it; empty for the session's first one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokenRecord(Value):
    """The first place at which a session's records are not what was written."""

    record_id: str
    session_id: str
    fault: Fault
    message: str
    timestamp: float


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditVerification(Value):
    """What was looked at and what is broken."""

    ok: bool
    """Whether nothing is broken."""
    sessions: int
    chained: int
    not_chained: int
    events: int
    unhashed: int
    covered: int
    """Events that a digest of their commit covers."""
    uncovered: int
    """Events that no digest covers."""
    decisions: int
    """Closed inbox items that are as they were closed."""
    compared: int
    broken: int
    checked: Sequence[str]
    """What was looked at, in words."""
    not_checked: Sequence[str]
    """What was not looked at, in words."""
    first: BrokenRecord | None
    links: Sequence[BrokenRecord]
    """The first broken link of each session, the earliest first; at most 1,000."""


class AuditFilters(TypedDict, total=False):
    """Which records are listed; what is not given, or `None`, does not matter."""

    agent: Annotated[
        str | None,
        Told(
            "Only where this agent acted, had the work or was to get it.",
            max_length=200,
            pattern=PLAIN,
        ),
    ]
    task: Annotated[str | None, Told("Only those of this task.", max_length=200, pattern=PLAIN)]
    correlation: Annotated[
        str | None, Told("Only those with this correlation id.", max_length=200, pattern=PLAIN)
    ]
    status: Annotated[HandoffMove | None, Told("Only moves of handoffs to this status.")]
    session: Annotated[
        str | None, Told("Only those of this session.", max_length=200, pattern=PLAIN)
    ]
    handoff: Annotated[
        str | None, Told("Only those of the handoff with this id.", max_length=200, pattern=PLAIN)
    ]
    type: Annotated[AuditedType | None, Told("Only those of this type.")]
    since: Annotated[Moment | None, Told("From then on.")]
    until: Annotated[Moment | None, Told("Before then.")]
    text: Annotated[
        str | None,
        Told(
            "Only with this in agents, reason, error, code, ids or facts, whatever the case.",
            max_length=200,
            pattern=PLAIN,
        ),
    ]


class Audit(Protocol):
    """The records of the audit; they can be read and verified, not changed."""

    @endpoint("GET", "/audit/records", scope="read")
    def list(
        self,
        *,
        oldest_first: Annotated[bool, Told("Begin with the oldest.")] = False,
        **filters: Unpack[AuditFilters],
    ) -> Pages[AuditEntry]:
        """List who handed what to whom, who decided and why, newest first.

        With `text`, a page that had to look at very many records may be short or empty: there is
        more as long as there is a `next_cursor`.
        """
        ...

    @endpoint(
        "GET", "/audit/records/{record_id:path}", scope="read", problems=(404,), is_whole=True
    )
    def get(
        self,
        record_id: Annotated[
            str,
            Told(
                "The id of a record, `SESSION/NUMBER`, or of a handoff.",
                min_length=1,
                max_length=300,
                pattern=ADDRESSED,
            ),
        ],
    ) -> Pages[AuditEntry]:
        """A record, or all records of a handoff, the oldest first."""
        ...

    @endpoint("POST", "/audit/verify", scope="read", problems=(404, 413, 504))
    async def verify(
        self,
        *,
        session_id: Annotated[
            str | None,
            Told("Only this session.", min_length=1, max_length=128, pattern=SESSION_ID),
        ] = None,
        against: Annotated[
            str | Iterable[str] | None,
            Told(
                "The text of an earlier export: each of its records must still be there as it was.",
                max_length=100_000_000,
            ),
        ] = None,
        timeout_s: Annotated[
            float, Told("How long it may take; then it is 504.", ge=1, le=600)
        ] = 55.0,
    ) -> AuditVerification:
        """Find out whether what is stored was changed, and where first.

        If that takes longer than `timeout_s`, verify sessions one by one, or use the command.
        """
        ...

    @endpoint("GET", "/audit/export", scope="read", file="audit.jsonl")
    def export(
        self,
        **filters: Unpack[AuditFilters],
    ) -> AsyncStream[str]:
        """Records as JSON lines, the oldest first; the last line is the manifest.

        An export without a manifest was cut off.
        """
        ...


class CalledAudit(Called):
    """`Audit`, called."""

    list = lists(Audit.list)
    get = lists(Audit.get)
    verify = calls(Audit.verify)
    export = streams(Audit.export)
